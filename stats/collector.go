package stats

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/state"
)

// Options are what a Collector needs. The zero value is a node's.
type Options struct {
	// ProcDir is where proc is mounted, "/proc" when empty.
	ProcDir string
	// MetricGroups are the names of the groups of CRI metrics to collect, see
	// MetricGroups; nil for all, empty for none.
	MetricGroups []string
}

// Collector reads what containers and pods use. It is safe for concurrent use.
type Collector struct {
	proc    string
	trees   hierarchies
	metrics metricSet
	layers  *layerMeter
	devices *deviceNames
	readers sync.Pool

	mu      sync.Mutex
	entries map[entryKey]*entry
}

// entryKey is a container's cgroup, or the one above it.
type entryKey struct {
	id    string
	above bool
}

// entry is what is remembered of a cgroup.
type entry struct {
	mu sync.Mutex
	// pid is the process that the cgroup was found by: another one means
	// another run of the container, and another cgroup.
	pid   int
	group *group
	rate  cpuRate
}

// New returns a collector for this node. It fails with ErrInvalidArgument for an
// unknown group of metrics. Where no cgroups can be seen, as in a container
// without them, it works and finds nothing to tell. Close must be called.
func New(opts Options) (*Collector, error) {
	if opts.ProcDir == "" {
		opts.ProcDir = "/proc"
	}
	metrics, err := newMetricSet(opts.MetricGroups)
	if err != nil {
		return nil, err
	}
	trees, err := readTrees(opts.ProcDir)
	if err != nil {
		logrus.WithError(err).Warn("cannot see the node's cgroups: there will be no figures of containers")
	}
	return &Collector{
		proc:    opts.ProcDir,
		trees:   trees,
		metrics: metrics,
		layers:  newLayerMeter(opts.ProcDir),
		devices: newDeviceNames(),
		readers: sync.Pool{New: func() any { return &reader{} }},
		entries: map[entryKey]*entry{},
	}, nil
}

// Close ends the counting in the background and waits for its end.
func (c *Collector) Close() { c.layers.close() }

// target is a cgroup to look at: that of a container or sandbox, or the one
// above it.
type target struct {
	entryKey
	pid     int
	started time.Time
}

func containerTarget(container *state.Container) target {
	return target{
		entryKey: entryKey{id: container.ID},
		pid:      container.Status.PID,
		started:  container.Status.StartedAt,
	}
}

func sandboxTarget(pod *state.Pod) target {
	return target{entryKey: entryKey{id: pod.ID}, pid: pod.Status.PID, started: pod.Status.StartedAt}
}

// look is what was found at a target; group is nil when nothing was.
type look struct {
	group *group
	figures
	// nanoCores is nil when it was not asked for or cannot be known.
	nanoCores *uint64
}

// look looks at one target. The entry is locked meanwhile, so that two calls
// do not mix up their samples.
func (c *Collector) look(r *reader, t target, want parts) look {
	e := c.entry(t)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.group == nil {
		g, err := c.locate(r, t.id, t.pid)
		if err != nil {
			return look{}
		}
		if t.above {
			g = g.parent()
		} else {
			e.rate.begin(t.started)
		}
		e.group = g
	}
	found := look{group: e.group, figures: e.group.figures(r, want)}
	if found.vanished() {
		e.group = nil
		return look{}
	}
	if found.cpu != nil {
		if nanoCores, ok := e.rate.next(cpuSample{found.taken, found.cpu.usage}); ok {
			found.nanoCores = &nanoCores
		}
	}
	return found
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

// lookAll looks at all targets. Where there was nothing to take the nano cores
// from, it looks a second time, a moment later. When ctx ends it goes without.
func (c *Collector) lookAll(ctx context.Context, targets []target, want parts) []look {
	r := c.readers.Get().(*reader)
	defer c.readers.Put(r)
	looks := make([]look, len(targets))
	var again []int
	for i, t := range targets {
		if ctx.Err() != nil {
			return looks
		}
		looks[i] = c.look(r, t, want)
		if looks[i].cpu != nil && looks[i].nanoCores == nil {
			again = append(again, i)
		}
	}
	if len(again) == 0 || !want.has(partCPU) {
		return looks
	}
	if !sleep(ctx, quickWindow) {
		return looks
	}
	for _, i := range again {
		if second := c.look(r, targets[i], partCPU); second.cpu != nil {
			looks[i].cpu, looks[i].taken, looks[i].nanoCores = second.cpu, second.taken, second.nanoCores
		}
	}
	return looks
}

// sleep waits, and is false when ctx ended it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// forget drops what is remembered of containers and pods that are gone.
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
