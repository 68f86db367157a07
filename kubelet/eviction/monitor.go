package eviction

import (
	"cmp"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// MonitorOptions configure a Monitor. RootDir is required.
type MonitorOptions struct {
	Thresholds Thresholds
	// RootDir is on the pods' file system, ImageDir on the images' file system. Empty means RootDir.
	RootDir, ImageDir string
	// Transition is how long pressure is shown after it ended, so that the condition does not flap. Zero means 5
	// minutes.
	Transition time.Duration
}

// Monitor compares the node's memory and disk with the thresholds. It is safe for concurrent use.
type Monitor struct {
	opts    MonitorOptions
	machine machine

	mu sync.Mutex
	// lastShort is when the node was last below a threshold, by condition.
	lastShort map[v1.NodeConditionType]time.Time
	shown     map[v1.NodeConditionType]bool
	errs      map[v1.NodeConditionType]error
}

// NewMonitor makes a monitor, and looks at the machine once.
func NewMonitor(opts MonitorOptions) *Monitor {
	opts.ImageDir = cmp.Or(opts.ImageDir, opts.RootDir)
	return newMonitor(opts,
		machine{rootDir: opts.RootDir, imageDir: opts.ImageDir, meminfo: "/proc/meminfo", statfs: unix.Statfs})
}

func newMonitor(opts MonitorOptions, m machine) *Monitor {
	opts.Transition = cmp.Or(opts.Transition, 5*time.Minute)
	monitor := &Monitor{opts: opts, machine: m, lastShort: map[v1.NodeConditionType]time.Time{},
		shown: map[v1.NodeConditionType]bool{}}
	monitor.look()
	return monitor
}

// Pressure says whether the node has a condition, or had it within Transition. The error is why that is unknown.
func (m *Monitor) Pressure(kind v1.NodeConditionType) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown[kind], m.errs[kind]
}

// Kept is the part of a node's capacity that the thresholds keep from pods.
func (m *Monitor) Kept(capacity v1.ResourceList) v1.ResourceList {
	return m.opts.Thresholds.kept(capacity)
}

// shortage is the result of one look.
type shortage struct {
	seen map[signal]observation
	// met are the thresholds that the node is below, in the order in which to act on them.
	met []threshold
	// changed says that a condition changed.
	changed bool
	err     error
}

// look observes the machine and updates the conditions.
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
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure} {
		last, ever := m.lastShort[kind]
		short := ever && now.Sub(last) < m.opts.Transition
		found.changed = found.changed || short != m.shown[kind]
		m.shown[kind] = short
	}
	return found
}
