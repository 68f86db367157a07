package stats

import (
	"path/filepath"
	"time"
)

// parts says which figures of a cgroup to read. What nobody wants is not read.
type parts uint

const (
	partCPU parts = 1 << iota
	partMemory
	partPressure
	partProcesses
	// The following are for metrics alone.
	partCPUDetail
	partMemoryDetail
	partOOM
	partIO
)

// partsOfStats are what the stats RPCs tell of a container.
const partsOfStats = partCPU | partMemory | partPressure

func (p parts) has(part parts) bool { return p&part != 0 }

// figures are what the files of a cgroup say at one moment. A nil part is
// unknown: not asked for, not accounted on this node, or gone.
type figures struct {
	taken     time.Time
	cpu       *cpuFigures
	memory    *memoryFigures
	processes *processFigures
	// oom counts processes killed for want of memory, and hits of the high and
	// the max limit of version 2.
	oom, highEvents, maxEvents *uint64
	io                         []deviceIO

	cpuPressure, memoryPressure, ioPressure *pressure
}

// cpuFigures are in nanoseconds.
type cpuFigures struct {
	usage, user, system    uint64
	periods, throttled     uint64
	throttledTime          uint64
	hasModes, hasThrottled bool
}

// memoryFigures are in bytes; the faults and failures are counts.
type memoryFigures struct {
	usage, limit             uint64
	rss, cache, mapped       uint64
	inactiveFile, activeFile uint64
	faults, majorFaults      uint64
	// swap and swapLimit have a meaning with hasSwap; swapLimit is of swap
	// alone.
	swap, swapLimit uint64
	hasSwap         bool
	kernel          *uint64
	peak            *uint64
	failures        *uint64
}

// workingSet is what cannot be dropped from memory at once: all but the page
// cache that was not used lately.
func (m *memoryFigures) workingSet() uint64 {
	if m.usage < m.inactiveFile {
		return 0
	}
	return m.usage - m.inactiveFile
}

// processFigures counts tasks: processes and their threads.
type processFigures struct {
	tasks, limit uint64
}

// vanished reports whether nothing was there to read.
func (f *figures) vanished() bool { return f.cpu == nil && f.memory == nil && f.processes == nil }

// figures reads a cgroup. Files that are missing leave their part out.
func (g *group) figures(r *reader, want parts) figures {
	f := figures{taken: time.Now()}
	if g.v2 {
		g.readV2(r, want, &f)
	} else {
		g.readV1(r, want, &f)
	}
	if want.has(partPressure) && g.unified != "" {
		f.cpuPressure = readPressure(r, filepath.Join(g.unified, "cpu.pressure"))
		f.memoryPressure = readPressure(r, filepath.Join(g.unified, "memory.pressure"))
		f.ioPressure = readPressure(r, filepath.Join(g.unified, "io.pressure"))
	}
	return f
}

// readPressure returns nil where the kernel does not measure pressure.
func readPressure(r *reader, path string) *pressure {
	content, err := r.read(path)
	if err != nil {
		return nil
	}
	return parsePressure(content)
}

// optional returns the number in a file, nil where it is missing.
func optional(r *reader, path string) *uint64 {
	n, err := r.value(path)
	if err != nil {
		return nil
	}
	return &n
}

func (m *memoryFigures) swapIfKnown() *uint64 {
	if !m.hasSwap {
		return nil
	}
	return &m.swap
}
