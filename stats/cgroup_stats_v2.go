package stats

import "path/filepath"

// readV2 reads a cgroup of version 2 (Documentation/admin-guide/cgroup-v2.rst).
func (g *cgroup) readV2(r *reader, want statSet, f *cgroupStats) {
	if want.has(statCPU | statCPUDetail) {
		f.cpu = g.cpuV2(r)
	}
	if want.has(statMemory | statMemoryDetail) {
		f.memory = g.memoryV2(r, want)
	}
	if want.has(statProcesses) {
		if tasks, err := r.value(g.in("pids.current")); err == nil {
			f.processes = &pidsStats{tasks: tasks, limit: optional(r, g.in("pids.max"))}
		}
	}
	if want.has(statOOM) {
		g.eventsV2(r, f)
	}
	if want.has(statIO) {
		if content, err := r.read(g.in("io.stat")); err == nil {
			f.io = parseIOStat(content)
		}
	}
	if want.has(statReservation) {
		f.reservation = optional(r, g.in("memory.low"))
	}
}

// in returns the path of a file of version 2.
func (g *cgroup) in(name string) string { return filepath.Join(g.unified, name) }

func (g *cgroup) cpuV2(r *reader) *cpuStats {
	content, err := r.read(g.in("cpu.stat"))
	if err != nil {
		return nil
	}
	const microsecond = 1000
	cpu := cpuStats{}
	found := false
	for key, n := range pairs(content) {
		switch string(key) {
		case "usage_usec":
			cpu.usage, found = n*microsecond, true
		case "user_usec":
			cpu.user, cpu.hasModes = n*microsecond, true
		case "system_usec":
			cpu.system = n * microsecond
		case "nr_periods":
			cpu.periods, cpu.hasThrottled = n, true
		case "nr_throttled":
			cpu.throttled = n
		case "throttled_usec":
			cpu.throttledTime = n * microsecond
		case "nr_bursts":
			cpu.bursts = new(n)
		case "burst_usec":
			cpu.burstTime = new(n * microsecond)
		}
	}
	if !found {
		return nil
	}
	return &cpu
}

func (g *cgroup) memoryV2(r *reader, want statSet) *memoryStats {
	usage, err := r.value(g.in("memory.current"))
	if err != nil {
		return nil
	}
	content, err := r.read(g.in("memory.stat"))
	if err != nil {
		return nil
	}
	m := memoryStats{usage: usage, limit: unlimited, swapLimit: unlimited}
	for key, n := range pairs(content) {
		switch string(key) {
		case "anon":
			m.rss = new(n)
		case "file":
			m.cache = new(n)
		case "file_mapped":
			m.mapped = new(n)
		case "kernel": // since Linux 5.18
			m.kernel = new(n)
		case "inactive_file":
			m.inactiveFile = new(n)
		case "active_file":
			m.activeFile = new(n)
		case "pgfault":
			m.faults = new(n)
		case "pgmajfault":
			m.majorFaults = new(n)
		default:
			if want.has(statMemoryDetail) {
				m.readDetail(key, n, true)
			}
		}
	}
	if limit := optional(r, g.in("memory.max")); limit != nil {
		m.limit = *limit
	}
	if swap := optional(r, g.in("memory.swap.current")); swap != nil {
		m.swap = swap
		if limit := optional(r, g.in("memory.swap.max")); limit != nil {
			m.swapLimit = *limit
		}
	}
	if want.has(statMemoryDetail) {
		m.peak = optional(r, g.in("memory.peak")) // since Linux 5.19
	}
	return &m
}

func (g *cgroup) eventsV2(r *reader, f *cgroupStats) {
	content, err := r.read(g.in("memory.events"))
	if err != nil {
		return
	}
	for key, n := range pairs(content) {
		switch string(key) {
		case "high":
			f.highEvents = new(n)
		case "max":
			f.maxEvents = new(n)
		case "oom_kill":
			f.oom = new(n)
		}
	}
}
