package stats

import "path/filepath"

// noLimitV1 is the smallest limit of version 1 that means no limit. For no limit, the kernel writes the largest signed
// number, rounded down to a multiple of the page size.
const noLimitV1 = 1<<63 - 1<<20

// readV1 reads a cgroup of version 1 (Documentation/admin-guide/cgroup-v1).
func (g *cgroup) readV1(r *reader, want statSet, f *cgroupStats) {
	if want.has(statCPU|statCPUDetail) && g.cpuacct != "" {
		f.cpu = g.cpuV1(r, want)
	}
	if want.has(statMemory|statMemoryDetail) && g.memory != "" {
		f.memory = g.memoryV1(r, want)
	}
	if want.has(statProcesses) && g.pids != "" {
		if tasks, err := r.value(filepath.Join(g.pids, "pids.current")); err == nil {
			f.processes = &pidsStats{tasks: tasks, limit: optional(r, filepath.Join(g.pids, "pids.max"))}
		}
	}
	if want.has(statOOM) && g.memory != "" {
		f.oom = keyed(r, filepath.Join(g.memory, "memory.oom_control"), "oom_kill")
	}
	if want.has(statIO) && g.blkio != "" {
		f.io = g.ioV1(r)
	}
	if want.has(statReservation) && g.memory != "" {
		f.reservation = optional(r, filepath.Join(g.memory, "memory.soft_limit_in_bytes"))
		if f.reservation != nil && *f.reservation >= noLimitV1 {
			f.reservation = new(uint64)
		}
	}
}

func (g *cgroup) cpuV1(r *reader, want statSet) *cpuStats {
	usage, err := r.value(filepath.Join(g.cpuacct, "cpuacct.usage"))
	if err != nil {
		return nil
	}
	cpu := cpuStats{usage: usage}
	if !want.has(statCPUDetail) {
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
		case "nr_bursts":
			cpu.bursts = new(n)
		case "burst_time":
			cpu.burstTime = new(n)
		}
	}
	return &cpu
}

// memoryV1 reads the counts of the whole subtree, total_…, because a container may have cgroups of its own inside.
func (g *cgroup) memoryV1(r *reader, want statSet) *memoryStats {
	usage, err := r.value(filepath.Join(g.memory, "memory.usage_in_bytes"))
	if err != nil {
		return nil
	}
	content, err := r.read(filepath.Join(g.memory, "memory.stat"))
	if err != nil {
		return nil
	}
	m := memoryStats{usage: usage, limit: unlimited, swapLimit: unlimited}
	for key, n := range pairs(content) {
		switch string(key) {
		case "total_rss":
			m.rss = new(n)
		case "total_cache":
			m.cache = new(n)
		case "total_mapped_file":
			m.mapped = new(n)
		case "total_inactive_file":
			m.inactiveFile = new(n)
		case "total_active_file":
			m.activeFile = new(n)
		case "total_pgfault":
			m.faults = new(n)
		case "total_pgmajfault":
			m.majorFaults = new(n)
		case "total_swap": // with swap accounting only
			m.swap = new(n)
		default:
			if want.has(statMemoryDetail) {
				m.readDetail(key, n, false)
			}
		}
	}
	g.limitsV1(r, &m)
	if want.has(statMemoryDetail) {
		m.kernel = optional(r, filepath.Join(g.memory, "memory.kmem.usage_in_bytes"))
		m.peak = optional(r, filepath.Join(g.memory, "memory.max_usage_in_bytes"))
		m.failures = optional(r, filepath.Join(g.memory, "memory.failcnt"))
	}
	return &m
}

// limitsV1 reads the limits. The swap limit counts memory plus swap, and exists only with a memory limit.
func (g *cgroup) limitsV1(r *reader, m *memoryStats) {
	limit := optional(r, filepath.Join(g.memory, "memory.limit_in_bytes"))
	if limit == nil || *limit >= noLimitV1 {
		return
	}
	m.limit = *limit
	if m.swap == nil {
		return
	}
	both := optional(r, filepath.Join(g.memory, "memory.memsw.limit_in_bytes"))
	if both != nil && *both < noLimitV1 && *both >= m.limit {
		m.swapLimit = *both - m.limit
	}
}
