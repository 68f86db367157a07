package stats

import (
	"path/filepath"
	"time"
)

// statSet is a set of stats to read.
type statSet uint

const (
	statCPU statSet = 1 << iota
	statMemory
	statPressure
	statProcesses
	// The following are for metrics alone.
	statCPUDetail
	statMemoryDetail
	statOOM
	statIO
	statReservation
	statHugetlb
)

// criStats are the stats that the stats RPCs return.
const criStats = statCPU | statMemory | statPressure

func (s statSet) has(stat statSet) bool { return s&stat != 0 }

// cgroupStats are the stats of a cgroup at one moment. A nil part is unknown: not requested, not accounted on this
// node, or gone.
type cgroupStats struct {
	taken     time.Time
	cpu       *cpuStats
	memory    *memoryStats
	processes *pidsStats
	// oom counts out-of-memory kills. highEvents and maxEvents count hits of the high and the max limit of version 2.
	oom, highEvents, maxEvents *uint64
	io                         []deviceIO
	// reservation is the memory in bytes that the kernel reclaims last, 0 for none.
	reservation *uint64
	hugetlb     []hugetlbStats

	cpuPressure, memoryPressure, ioPressure *pressure
}

// cpuStats are times in nanoseconds and counts.
type cpuStats struct {
	usage, user, system    uint64
	periods, throttled     uint64
	throttledTime          uint64
	hasModes, hasThrottled bool
	// bursts are nil on kernels before 5.14.
	bursts, burstTime *uint64
}

// memoryStats are in bytes. The faults and failures are counts. A nil part is unknown: the kernel has no such line or
// file.
type memoryStats struct {
	usage, limit             uint64
	rss, cache, mapped       *uint64
	inactiveFile, activeFile *uint64
	faults, majorFaults      *uint64
	// swapLimit is the limit of swap alone. It is valid if swap is not nil.
	swap      *uint64
	swapLimit uint64
	kernel    *uint64
	peak      *uint64
	failures  *uint64
	// detail has the lines of memoryDetails, by the names of version 2.
	detail map[string]uint64
}

// memoryDetails are lines of memory.stat for metrics alone. Each has its name in version 1, for the whole subtree, and
// its name in version 2.
var memoryDetails = []struct{ v1, v2 string }{
	{"total_active_anon", "active_anon"},
	{"total_inactive_anon", "inactive_anon"},
	{"total_rss_huge", "anon_thp"},
	{"", "shmem_thp"},
	{"", "file_thp"},
	{"total_dirty", "file_dirty"},
	{"total_writeback", "file_writeback"},
	{"", "pgscan"},
	{"", "pgsteal"},
	{"total_workingset_refault_anon", "workingset_refault_anon"},
	{"total_workingset_refault_file", "workingset_refault_file"},
}

// readDetail reads a line of memory.stat if it is one of memoryDetails.
func (m *memoryStats) readDetail(key []byte, n uint64, v2 bool) {
	for _, detail := range memoryDetails {
		name := detail.v1
		if v2 {
			name = detail.v2
		}
		if name == string(key) {
			if m.detail == nil {
				m.detail = make(map[string]uint64, len(memoryDetails))
			}
			m.detail[detail.v2] = n
			return
		}
	}
}

// workingSet is the memory in use, without inactive page cache, which the kernel can drop at once. It is nil if
// unknown.
func (m *memoryStats) workingSet() *uint64 {
	if m.inactiveFile == nil {
		return nil
	}
	return new(m.usage - min(m.usage, *m.inactiveFile))
}

// pidsStats counts tasks: processes and their threads. The limit is nil if unknown.
type pidsStats struct {
	tasks uint64
	limit *uint64
}

// empty reports whether the stats of CPU, memory and processes are all unknown.
func (f *cgroupStats) empty() bool { return f.cpu == nil && f.memory == nil && f.processes == nil }

// stats reads the wanted files of a cgroup. A missing file leaves its part nil.
func (g *cgroup) stats(r *reader, want statSet) cgroupStats {
	f := cgroupStats{taken: time.Now()}
	if g.v2 {
		g.readV2(r, want, &f)
	} else {
		g.readV1(r, want, &f)
	}
	if want.has(statPressure) && g.unified != "" {
		f.cpuPressure = readPressure(r, filepath.Join(g.unified, "cpu.pressure"))
		f.memoryPressure = readPressure(r, filepath.Join(g.unified, "memory.pressure"))
		f.ioPressure = readPressure(r, filepath.Join(g.unified, "io.pressure"))
	}
	return f
}

// readPressure returns nil if the kernel does not measure pressure.
func readPressure(r *reader, path string) *pressure {
	content, err := r.read(path)
	if err != nil {
		return nil
	}
	return parsePressure(content)
}

// optional returns the number in a file, nil if the file is missing.
func optional(r *reader, path string) *uint64 {
	n, err := r.value(path)
	if err != nil {
		return nil
	}
	return &n
}

// keyed returns the number behind a key in a file, nil if the file or the key is missing.
func keyed(r *reader, path, key string) *uint64 {
	content, err := r.read(path)
	if err != nil {
		return nil
	}
	for name, n := range pairs(content) {
		if string(name) == key {
			return &n
		}
	}
	return nil
}
