package eviction

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// MonitorOptions configure a Monitor. RootDir is required.
type MonitorOptions struct {
	Thresholds Thresholds
	// RootDir is on the pods' file system, ImageDir on the images' file system. An empty ImageDir means RootDir.
	RootDir, ImageDir string
	// Allocatable is the memory that pods may have, in bytes; 0 means all memory.
	Allocatable int64
	// Transition is how long pressure is shown after it ended, so that the condition does not flap. Zero means 5
	// minutes.
	Transition time.Duration
}

// Monitor compares the node's memory, disk and process ids with the thresholds. It is safe for concurrent use.
type Monitor struct {
	opts    MonitorOptions
	machine machine

	mu sync.Mutex
	// lastShort is when the node was last below a threshold, by condition.
	lastShort map[v1.NodeConditionType]time.Time
	shown     map[v1.NodeConditionType]bool
	// below has the thresholds that the node is below. An entry stays until isBelow returns false.
	below map[threshold]crossing
	errs  map[v1.NodeConditionType]error
}

// crossing records since when the node is below a threshold. met says that the grace period was over at the last look.
type crossing struct {
	since time.Time
	met   bool
}

// NewMonitor makes a monitor, and looks at the machine once.
func NewMonitor(opts MonitorOptions) *Monitor {
	opts.ImageDir = cmp.Or(opts.ImageDir, opts.RootDir)
	return newMonitor(opts,
		machine{rootDir: opts.RootDir, imageDir: opts.ImageDir, meminfo: "/proc/meminfo", proc: "/proc",
			allocatable: opts.Allocatable, statfs: unix.Statfs})
}

func newMonitor(opts MonitorOptions, m machine) *Monitor {
	opts.Transition = cmp.Or(opts.Transition, 5*time.Minute)
	monitor := &Monitor{opts: opts, machine: m, lastShort: map[v1.NodeConditionType]time.Time{},
		shown: map[v1.NodeConditionType]bool{}, below: map[threshold]crossing{}}
	monitor.look(nil)
	return monitor
}

// Pressure reports whether the node has a condition, or had it within Transition. It returns an error if a signal of
// the condition cannot be read.
func (m *Monitor) Pressure(kind v1.NodeConditionType) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown[kind], m.errs[kind]
}

// Kept returns the part of a node's capacity that the thresholds keep from pods.
func (m *Monitor) Kept(capacity v1.ResourceList) v1.ResourceList {
	return m.opts.Thresholds.kept(capacity)
}

// shortage is the result of one look.
type shortage struct {
	seen map[signal]observation
	// met are the thresholds to act on, in this order. The node is below them, and their grace periods are over.
	met []threshold
	// changed says that a condition changed.
	changed bool
	err     error
}

// look observes the machine and updates the conditions. As in the kubelet, a condition begins as soon as the node is
// below a soft threshold. used is the memory that pods use, or nil if it is unknown.
func (m *Monitor) look(used *int64) shortage {
	seen, errs := m.machine.observe(used)
	found := shortage{seen: seen}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errs = map[v1.NodeConditionType]error{}
	now := time.Now()
	for _, t := range m.opts.Thresholds.list {
		of, ok := seen[t.signal]
		if !ok && t.signal != allocatableMemory { // allocatableMemory is not read from the machine
			m.errs[t.signal.condition()] = errs[t.signal.condition()]
		}
		if !ok || !m.isBelow(t, of, now) {
			continue
		}
		m.lastShort[t.signal.condition()] = now
		if m.below[t].met {
			found.met = append(found.met, t)
		}
	}
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		found.err = errors.Join(found.err, errs[kind])
		last, ever := m.lastShort[kind]
		short := ever && now.Sub(last) < m.opts.Transition
		found.changed = found.changed || short != m.shown[kind]
		m.shown[kind] = short
	}
	return found
}

// isBelow reports whether the node is below a threshold. After the grace period the node counts as below until the
// threshold plus t.reclaim is available, as in the kubelet. Within the grace period t.reclaim does not count, because
// nothing is reclaimed yet.
func (m *Monitor) isBelow(t threshold, of observation, now time.Time) bool {
	wanted := t.amount.value(of.capacity)
	crossed, before := m.below[t]
	if crossed.met {
		wanted += t.reclaim.value(of.capacity)
	}
	if of.available >= wanted {
		delete(m.below, t)
		return false
	}
	if !before {
		crossed.since = now
	}
	crossed.met = now.Sub(crossed.since) >= t.grace
	m.below[t] = crossed
	return true
}
