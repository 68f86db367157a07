package eviction

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// MonitorOptions configure a Monitor. RootDir is required.
type MonitorOptions struct {
	Thresholds Thresholds
	// RootDir is in the file system of the pods' files, ImageDir in that of the images; empty means RootDir.
	RootDir, ImageDir string
	// Transition is how long pressure is shown after it ended, so that the scheduler does not swing. Zero means 5 minutes.
	Transition time.Duration
	// Changed is called when a condition changed. It must not block; nil calls nobody.
	Changed func()
}

// Monitor compares what the node has with the thresholds. It is safe for concurrent use.
type Monitor struct {
	opts    MonitorOptions
	machine machine

	mu sync.Mutex
	// lastShort is when the node was short last, by condition.
	lastShort map[v1.NodeConditionType]time.Time
	shown     map[v1.NodeConditionType]bool
	errs      map[v1.NodeConditionType]error
}

// NewMonitor looks at the machine once.
func NewMonitor(opts MonitorOptions) *Monitor {
	if opts.ImageDir == "" {
		opts.ImageDir = opts.RootDir
	}
	return newMonitor(opts, machine{rootDir: opts.RootDir, imageDir: opts.ImageDir, meminfo: "/proc/meminfo", statfs: unix.Statfs})
}

func newMonitor(opts MonitorOptions, m machine) *Monitor {
	if opts.Transition == 0 {
		opts.Transition = 5 * time.Minute
	}
	if opts.Changed == nil {
		opts.Changed = func() {}
	}
	monitor := &Monitor{opts: opts, machine: m, lastShort: map[v1.NodeConditionType]time.Time{}, shown: map[v1.NodeConditionType]bool{}}
	monitor.look()
	return monitor
}

// Pressure says whether the node is short of what a condition is about, or was a short while ago. The error is why that
// is not known.
func (m *Monitor) Pressure(kind v1.NodeConditionType) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown[kind], m.errs[kind]
}

// Kept is what the thresholds keep of a node's capacity from pods.
func (m *Monitor) Kept(capacity v1.ResourceList) v1.ResourceList {
	return m.opts.Thresholds.kept(capacity)
}

// shortage is what a look found.
type shortage struct {
	seen map[signal]observation
	// met are the thresholds below which the node is, the one to act on first.
	met []threshold
	err error
}

// look observes the machine and keeps what follows for the conditions.
func (m *Monitor) look() shortage {
	seen, err := m.machine.observe()
	found := shortage{seen: seen, err: err}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errs = map[v1.NodeConditionType]error{}
	now := time.Now()
	for _, t := range m.opts.Thresholds.list {
		of, ok := seen[t.signal]
		if !ok && err != nil {
			m.errs[t.signal.condition()] = err
		}
		if ok && of.available < t.of(of.capacity) {
			found.met = append(found.met, t)
			m.lastShort[t.signal.condition()] = now
		}
	}
	changed := false
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure} {
		last, ever := m.lastShort[kind]
		short := ever && now.Sub(last) < m.opts.Transition
		changed = changed || short != m.shown[kind]
		m.shown[kind] = short
	}
	if changed {
		m.opts.Changed()
	}
	return found
}
