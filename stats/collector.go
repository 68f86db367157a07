package stats

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/hugepages"
	"github.com/criadapter/criadapter/state"
)

// Options are the options of a Collector. The zero value fits a node.
type Options struct {
	// procDir is the mount point of proc, "/proc" if empty.
	procDir string
	// MetricGroups are the groups of CRI metrics to collect, see metricGroups. Nil collects all, an empty slice none.
	MetricGroups []string
	// Sandboxes measure containers in sandboxes of their runtime, nil if there are none.
	Sandboxes Sandboxes
}

// Collector reads the resource usage of containers and pods. It is safe for concurrent use.
type Collector struct {
	proc    string
	trees   hierarchies
	metrics metricSet
	layers  *layerMeter
	// blockDevices is the constant blockDevices, except in tests.
	blockDevices string
	// sandboxes is nil if there are none.
	sandboxes Sandboxes
	// pageSizes are the sizes of huge pages.
	pageSizes []string
	readers   sync.Pool

	mu      sync.Mutex
	entries map[entryKey]*entry
}

// entryKey identifies the cgroup of a container or sandbox, or the parent of that cgroup.
type entryKey struct {
	id     string
	parent bool
}

// entry is the cached state of a cgroup.
type entry struct {
	mu sync.Mutex
	// pid is the process whose cgroup was looked up. Another pid means another run, which has another cgroup.
	pid    int
	cgroup *cgroup
	rate   cpuRate
	// sandboxed says that the runtime has measured the container.
	sandboxed bool
}

// New returns a collector for this node. It fails with ErrInvalidArgument for an unknown group of metrics. Without a
// visible cgroup tree, as in a container, it works and reports no stats. The caller must Close it.
func New(opts Options) (*Collector, error) {
	opts.procDir = cmp.Or(opts.procDir, "/proc")
	metrics, err := newMetricSet(opts.MetricGroups)
	if err != nil {
		return nil, err
	}
	trees, err := readTrees(opts.procDir)
	if err != nil {
		log.L.WithField("component", "stats").WithError(err).
			Warn("cannot read cgroups of the node, there are no stats of containers")
	}
	return &Collector{
		proc:         opts.procDir,
		trees:        trees,
		metrics:      metrics,
		layers:       newLayerMeter(opts.procDir),
		blockDevices: blockDevices,
		sandboxes:    opts.Sandboxes,
		pageSizes:    hugepages.Names("/"),
		readers:      sync.Pool{New: func() any { return &reader{} }},
		entries:      map[entryKey]*entry{},
	}, nil
}

// Close ends the background counting and waits for it.
func (c *Collector) Close() { c.layers.close() }

// target is a cgroup to read: the cgroup of a container or sandbox, or the parent of that cgroup.
type target struct {
	entryKey
	pid     int
	started time.Time
	// pod is the container's pod, nil for a sandbox and for a parent.
	pod *state.Pod
	// path is the cgroup parent of a pod without a sandbox container. Other targets are found by their process.
	path string
}

func containerTarget(pod *state.Pod, container *state.Container) target {
	return target{
		pod:      pod,
		entryKey: entryKey{id: container.ID},
		pid:      container.Status.PID,
		started:  container.Status.StartedAt,
	}
}

func sandboxTarget(pod *state.Pod) target {
	return target{entryKey: entryKey{id: pod.ID}, pid: pod.Status.PID, started: pod.Status.StartedAt}
}

// sample is the result of reading a target. cgroup is nil if it is gone.
type sample struct {
	cgroup *cgroup
	cgroupStats
	// sandboxed says that the container runs in its pod's sandbox, whose cgroup has all of its usage.
	sandboxed bool
	// nanoCores is nil if it was not requested or is unknown.
	nanoCores *uint64
}

// sample reads one target. It locks the target's entry, so that two calls do not mix their samples.
func (c *Collector) sample(ctx context.Context, r *reader, t target, want statSet) sample {
	e := c.entry(t)
	e.mu.Lock()
	defer e.mu.Unlock()
	var found sample
	if c.enter(r, e, t) {
		found = sample{cgroup: e.cgroup, cgroupStats: e.cgroup.stats(r, want)}
		if want.has(statHugetlb) {
			found.hugetlb = e.cgroup.hugetlbStats(r, c.pageSizes)
		}
	} else {
		found = c.sampleSandboxed(ctx, r, t)
		if found.sandboxed && !e.sandboxed {
			e.rate.begin(t.started)
			e.sandboxed = true
		}
	}
	if found.empty() {
		e.cgroup = nil
		return sample{}
	}
	if found.cpu != nil {
		if nanoCores, ok := e.rate.next(cpuSample{found.taken, found.cpu.usage}); ok {
			found.nanoCores = &nanoCores
		}
	}
	return found
}

// enter finds the cgroup of a new entry. It returns false if it finds no cgroup.
func (c *Collector) enter(r *reader, e *entry, t target) bool {
	if e.cgroup != nil {
		return true
	}
	if t.path != "" {
		e.cgroup = c.parentCgroup(t.path)
		return e.cgroup != nil
	}
	g, err := c.locate(r, t.id, t.pid)
	if err != nil {
		return false
	}
	if t.parent {
		g = g.parent()
	} else {
		e.rate.begin(t.started)
	}
	e.cgroup = g
	return true
}

func (c *Collector) entry(t target) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[t.entryKey]
	if e == nil || e.pid != t.pid {
		e = &entry{pid: t.pid}
		c.entries[t.entryKey] = e
	}
	return e
}

// sampleAll reads all targets. It reads targets without an earlier sample a second time after quickWindow, for their
// nano cores. If ctx ends first, their nano cores stay unknown.
func (c *Collector) sampleAll(ctx context.Context, targets []target, want statSet) []sample {
	r := c.readers.Get().(*reader)
	defer c.readers.Put(r)
	samples := make([]sample, len(targets))
	var again []int
	for i, t := range targets {
		if ctx.Err() != nil {
			return samples
		}
		samples[i] = c.sample(ctx, r, t, want)
		if samples[i].cpu != nil && samples[i].nanoCores == nil {
			again = append(again, i)
		}
	}
	if len(again) == 0 || !want.has(statCPU) {
		return samples
	}
	select {
	case <-time.After(quickWindow):
	case <-ctx.Done():
		return samples
	}
	for _, i := range again {
		if second := c.sample(ctx, r, targets[i], statCPU); second.cpu != nil {
			samples[i].cpu, samples[i].taken, samples[i].nanoCores = second.cpu, second.taken, second.nanoCores
		}
	}
	return samples
}

// forget drops the entries of containers and pods that are gone.
func (c *Collector) forget(snapshot *state.Snapshot) {
	c.mu.Lock()
	for key := range c.entries {
		if !exists(snapshot, key.id) {
			delete(c.entries, key)
		}
	}
	c.mu.Unlock()
	c.layers.forget(func(id string) bool { return exists(snapshot, id) })
}

func exists(snapshot *state.Snapshot, id string) bool {
	if _, err := snapshot.Container(id); err == nil {
		return true
	}
	_, err := snapshot.Pod(id)
	return err == nil
}
