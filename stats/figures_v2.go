package stats

import "path/filepath"

// readV2 reads a cgroup of version 2
// (Documentation/admin-guide/cgroup-v2.rst).
func (g *group) readV2(r *reader, want parts, f *figures) {
	if want.has(partCPU | partCPUDetail) {
		f.cpu = g.cpuV2(r)
	}
	if want.has(partMemory | partMemoryDetail) {
		f.memory = g.memoryV2(r, want)
	}
	if want.has(partProcesses) {
		if tasks, err := r.value(g.in("pids.current")); err == nil {
			f.processes = &processFigures{tasks: tasks, limit: unlimited}
			if limit := optional(r, g.in("pids.max")); limit != nil {
				f.processes.limit = *limit
			}
		}
	}
	if want.has(partOOM) {
		g.eventsV2(r, f)
	}
	if want.has(partIO) {
		if content, err := r.read(g.in("io.stat")); err == nil {
			f.io = parseIOStat(content)
		}
	}
}

// in returns the path of a file of version 2.
func (g *group) in(name string) string { return filepath.Join(g.unified, name) }

func (g *group) cpuV2(r *reader) *cpuFigures {
	content, err := r.read(g.in("cpu.stat"))
	if err != nil {
		return nil
	}
	const microsecond = 1000
	cpu := cpuFigures{}
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
		}
	}
	if !found {
		return nil
	}
	return &cpu
}

func (g *group) memoryV2(r *reader, want parts) *memoryFigures {
	usage, err := r.value(g.in("memory.current"))
	if err != nil {
		return nil
	}
	content, err := r.read(g.in("memory.stat"))
	if err != nil {
		return nil
	}
	m := memoryFigures{usage: usage, limit: unlimited, swapLimit: unlimited}
	for key, n := range pairs(content) {
		switch string(key) {
		case "anon":
			m.rss = n
		case "file":
			m.cache = n
		case "file_mapped":
			m.mapped = n
		case "kernel": // since Linux 5.18
			m.kernel = new(n)
		case "inactive_file":
			m.inactiveFile = n
		case "active_file":
			m.activeFile = n
		case "pgfault":
			m.faults = n
		case "pgmajfault":
			m.majorFaults = n
		}
	}
	if limit := optional(r, g.in("memory.max")); limit != nil {
		m.limit = *limit
	}
	if swap := optional(r, g.in("memory.swap.current")); swap != nil {
		m.swap, m.hasSwap = *swap, true
		if limit := optional(r, g.in("memory.swap.max")); limit != nil {
			m.swapLimit = *limit
		}
	}
	if want.has(partMemoryDetail) {
		m.peak = optional(r, g.in("memory.peak")) // since Linux 5.19
	}
	return &m
}

func (g *group) eventsV2(r *reader, f *figures) {
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
