package stats

import "path/filepath"

// noLimitV1 is where limits of version 1 begin to mean none: the kernel writes
// the largest multiple of a page that a signed number holds, whatever the
// page's size.
const noLimitV1 = 1<<63 - 1<<20

// readV1 reads a cgroup of version 1 (Documentation/admin-guide/cgroup-v1).
func (g *group) readV1(r *reader, want parts, f *figures) {
	if want.has(partCPU|partCPUDetail) && g.cpuacct != "" {
		f.cpu = g.cpuV1(r, want)
	}
	if want.has(partMemory|partMemoryDetail) && g.memory != "" {
		f.memory = g.memoryV1(r, want)
	}
	if want.has(partProcesses) && g.pids != "" {
		if tasks, err := r.value(filepath.Join(g.pids, "pids.current")); err == nil {
			f.processes = &processFigures{tasks: tasks, limit: unlimited}
			if limit := optional(r, filepath.Join(g.pids, "pids.max")); limit != nil {
				f.processes.limit = *limit
			}
		}
	}
	if want.has(partOOM) && g.memory != "" {
		g.oomV1(r, f)
	}
	if want.has(partIO) && g.blkio != "" {
		f.io = g.ioV1(r)
	}
}

func (g *group) cpuV1(r *reader, want parts) *cpuFigures {
	usage, err := r.value(filepath.Join(g.cpuacct, "cpuacct.usage"))
	if err != nil {
		return nil
	}
	cpu := cpuFigures{usage: usage}
	if !want.has(partCPUDetail) {
		return &cpu
	}
	user := optional(r, filepath.Join(g.cpuacct, "cpuacct.usage_user"))
	system := optional(r, filepath.Join(g.cpuacct, "cpuacct.usage_sys"))
	if user != nil && system != nil {
		cpu.user, cpu.system, cpu.hasModes = *user, *system, true
	}
	if g.cpu == "" {
		return &cpu
	}
	content, err := r.read(filepath.Join(g.cpu, "cpu.stat"))
	if err != nil {
		return &cpu
	}
	for key, n := range pairs(content) {
		switch string(key) {
		case "nr_periods":
			cpu.periods, cpu.hasThrottled = n, true
		case "nr_throttled":
			cpu.throttled = n
		case "throttled_time":
			cpu.throttledTime = n
		}
	}
	return &cpu
}

// memoryV1 takes the figures of the whole subtree, which are total_…: a
// container may have cgroups of its own inside.
func (g *group) memoryV1(r *reader, want parts) *memoryFigures {
	usage, err := r.value(filepath.Join(g.memory, "memory.usage_in_bytes"))
	if err != nil {
		return nil
	}
	content, err := r.read(filepath.Join(g.memory, "memory.stat"))
	if err != nil {
		return nil
	}
	m := memoryFigures{usage: usage, limit: unlimited, swapLimit: unlimited}
	for key, n := range pairs(content) {
		switch string(key) {
		case "total_rss":
			m.rss = n
		case "total_cache":
			m.cache = n
		case "total_mapped_file":
			m.mapped = n
		case "total_inactive_file":
			m.inactiveFile = n
		case "total_active_file":
			m.activeFile = n
		case "total_pgfault":
			m.faults = n
		case "total_pgmajfault":
			m.majorFaults = n
		case "total_swap": // with swap accounting only
			m.swap, m.hasSwap = n, true
		}
	}
	g.limitsV1(r, &m)
	if want.has(partMemoryDetail) {
		m.kernel = optional(r, filepath.Join(g.memory, "memory.kmem.usage_in_bytes"))
		m.peak = optional(r, filepath.Join(g.memory, "memory.max_usage_in_bytes"))
		m.failures = optional(r, filepath.Join(g.memory, "memory.failcnt"))
	}
	return &m
}

// limitsV1 reads the limits. That of swap is of memory and swap together, and
// cannot be there without one of memory.
func (g *group) limitsV1(r *reader, m *memoryFigures) {
	limit := optional(r, filepath.Join(g.memory, "memory.limit_in_bytes"))
	if limit == nil || *limit >= noLimitV1 {
		return
	}
	m.limit = *limit
	if !m.hasSwap {
		return
	}
	both := optional(r, filepath.Join(g.memory, "memory.memsw.limit_in_bytes"))
	if both != nil && *both < noLimitV1 && *both >= m.limit {
		m.swapLimit = *both - m.limit
	}
}

func (g *group) oomV1(r *reader, f *figures) {
	content, err := r.read(filepath.Join(g.memory, "memory.oom_control"))
	if err != nil {
		return
	}
	for key, n := range pairs(content) {
		if string(key) == "oom_kill" {
			f.oom = new(n)
		}
	}
}

// ioV1 joins the bytes and the operations of each device. The kernel's own
// throttling layer counts them for every scheduler.
func (g *group) ioV1(r *reader) []deviceIO {
	var all []deviceIO
	index := map[device]int{}
	add := func(name string, field func(*deviceIO, bool) *uint64) {
		content, err := r.read(filepath.Join(g.blkio, name))
		if err != nil {
			return
		}
		for key, n := range parseBlkio(content) {
			at, known := index[key.device]
			if !known {
				at = len(all)
				index[key.device] = at
				all = append(all, deviceIO{device: key.device})
			}
			*field(&all[at], key.write) = n
		}
	}
	add("blkio.throttle.io_service_bytes_recursive", func(io *deviceIO, write bool) *uint64 {
		if write {
			return &io.writtenBytes
		}
		return &io.readBytes
	})
	add("blkio.throttle.io_serviced_recursive", func(io *deviceIO, write bool) *uint64 {
		if write {
			return &io.writes
		}
		return &io.reads
	})
	return all
}
