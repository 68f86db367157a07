package stats

import (
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The groups of metrics, which the configuration can leave out.
const (
	groupCPU         = "cpu"
	groupDescriptors = "descriptors"
	groupDisk        = "disk"
	groupDiskIO      = "diskio"
	groupHugetlb     = "hugetlb"
	groupLifecycle   = "lifecycle"
	groupMemory      = "memory"
	groupNetwork     = "network"
	groupOOM         = "oom"
	groupPressure    = "pressure"
	groupProcess     = "process"
	groupSpec        = "spec"
)

const (
	counter = runtimeapi.MetricType_COUNTER
	gauge   = runtimeapi.MetricType_GAUGE

	both = ofContainer | ofPod
)

// metricTable returns the CRI metrics: the container metrics of the kubelet's /metrics/cadvisor, under the same names.
func metricTable() []metric {
	return slices.Concat(
		lifecycleMetrics(), cpuMetrics(), memoryMetrics(), hugetlbMetrics(), oomMetrics(), pressureMetrics(),
		processMetrics(), diskMetrics(), blockIOMetrics(), networkMetrics(), specMetrics(),
	)
}

func lifecycleMetrics() []metric {
	return []metric{
		{groupLifecycle, "container_last_seen", "When the container was last seen, in seconds since 1970.", gauge, nil,
			both, lastSeen},
		{groupLifecycle, "container_start_time_seconds", "When the container was started, in seconds since 1970.",
			gauge, nil, both, startTime},
		{groupLifecycle, "container_creation_time_seconds", "When the container was created, in seconds since 1970.",
			gauge, nil, ofContainer, creationTime},
	}
}

func cpuMetrics() []metric {
	return []metric{
		{groupCPU, "container_cpu_usage_seconds_total", "CPU time used, in seconds.", counter, []string{"cpu"}, both,
			cpuTotal},
		{groupCPU, "container_cpu_user_seconds_total", "CPU time used in user mode, in seconds.", counter, nil, both,
			cpuMode(func(c *cpuStats) uint64 { return c.user })},
		{groupCPU, "container_cpu_system_seconds_total", "CPU time used in kernel mode, in seconds.", counter, nil,
			both, cpuMode(func(c *cpuStats) uint64 { return c.system })},
		{groupCPU, "container_cpu_cfs_periods_total", "Periods of the CPU quota that have passed.", counter, nil, both,
			quota(func(c *cpuStats) uint64 { return c.periods })},
		{groupCPU, "container_cpu_cfs_throttled_periods_total", "Periods in which the CPU quota was used up.", counter,
			nil, both, quota(func(c *cpuStats) uint64 { return c.throttled })},
		{groupCPU, "container_cpu_cfs_throttled_seconds_total", "Time spent waiting for more CPU quota, in seconds.",
			counter, nil, both, quota(func(c *cpuStats) uint64 { return seconds(c.throttledTime) })},
		{groupCPU, "container_cpu_cfs_burst_periods_total",
			"Periods in which quota left over from earlier periods was used (Linux 5.14).", counter, nil,
			both, burst(func(c *cpuStats) *uint64 { return c.bursts })},
		{groupCPU, "container_cpu_cfs_burst_seconds_total",
			"CPU time used from quota left over from earlier periods, in seconds (Linux 5.14).", counter, nil,
			both, burst(func(c *cpuStats) *uint64 { return wholeSeconds(c.burstTime) })},
	}
}

func memoryMetrics() []metric {
	return []metric{
		{groupMemory, "container_memory_usage_bytes", "All memory in use, in bytes.", gauge, nil, both,
			memory(func(m *memoryStats) *uint64 { return &m.usage })},
		{groupMemory, "container_memory_working_set_bytes",
			"Memory in use without the inactive page cache, in bytes.", gauge, nil, both,
			memory((*memoryStats).workingSet)},
		{groupMemory, "container_memory_rss", "Anonymous memory, in bytes.", gauge, nil, both,
			memory(func(m *memoryStats) *uint64 { return m.rss })},
		{groupMemory, "container_memory_cache", "Page cache, in bytes.", gauge, nil, both,
			memory(func(m *memoryStats) *uint64 { return m.cache })},
		{groupMemory, "container_memory_mapped_file", "Mapped files, in bytes.", gauge, nil, both,
			memory(func(m *memoryStats) *uint64 { return m.mapped })},
		{groupMemory, "container_memory_total_active_file_bytes", "Active page cache, in bytes.", gauge,
			nil, both, memory(func(m *memoryStats) *uint64 { return m.activeFile })},
		{groupMemory, "container_memory_total_inactive_file_bytes", "Inactive page cache, in bytes.",
			gauge, nil, both, memory(func(m *memoryStats) *uint64 { return m.inactiveFile })},
		{groupMemory, "container_memory_active_anon_bytes", "Active anonymous memory, in bytes.", gauge,
			nil, both, memoryDetail("active_anon")},
		{groupMemory, "container_memory_inactive_anon_bytes", "Inactive anonymous memory, in bytes.",
			gauge, nil, both, memoryDetail("inactive_anon")},
		{groupMemory, "container_memory_anon_thp_bytes", "Anonymous memory in transparent huge pages, in bytes.", gauge,
			nil, both, memoryDetail("anon_thp")},
		{groupMemory, "container_memory_shmem_thp_bytes",
			"Shared memory in transparent huge pages, in bytes (cgroup v2).", gauge, nil, both,
			memoryDetail("shmem_thp")},
		{groupMemory, "container_memory_file_thp_bytes", "Page cache in transparent huge pages, in bytes (cgroup v2).",
			gauge, nil, both, memoryDetail("file_thp")},
		{groupMemory, "container_memory_file_dirty_bytes", "Page cache that is not yet written to disk, in bytes.",
			gauge, nil, both, memoryDetail("file_dirty")},
		{groupMemory, "container_memory_file_writeback_bytes", "Page cache that is being written to disk, in bytes.",
			gauge, nil, both, memoryDetail("file_writeback")},
		{groupMemory, "container_memory_pgscan_total", "Pages that the kernel scanned for reclaim (cgroup v2).",
			counter, nil, both, memoryDetail("pgscan")},
		{groupMemory, "container_memory_pgsteal_total", "Pages that the kernel reclaimed (cgroup v2).", counter, nil,
			both, memoryDetail("pgsteal")},
		{groupMemory, "container_memory_workingset_refault_anon_total",
			"Refaults of recently evicted anonymous pages (Linux 5.9).", counter, nil, both,
			memoryDetail("workingset_refault_anon")},
		{groupMemory, "container_memory_workingset_refault_file_total",
			"Refaults of recently evicted page cache (Linux 5.9).", counter, nil, both,
			memoryDetail("workingset_refault_file")},
		{groupMemory, "container_memory_swap", "Memory swapped out, in bytes.", gauge, nil, both,
			memory(func(m *memoryStats) *uint64 { return m.swap })},
		{groupMemory, "container_memory_kernel_usage", "Memory of the kernel, in bytes.", gauge, nil, both,
			memory(func(m *memoryStats) *uint64 { return m.kernel })},
		{groupMemory, "container_memory_max_usage_bytes", "Peak memory in use, in bytes.", gauge, nil, both,
			memory(func(m *memoryStats) *uint64 { return m.peak })},
		{groupMemory, "container_memory_failcnt", "How often the memory limit was hit (cgroup v1).", counter, nil, both,
			memory(func(m *memoryStats) *uint64 { return m.failures })},
		{groupMemory, "container_memory_failures_total", "Page faults.", counter, []string{"failure_type", "scope"},
			both, pageFaults},
	}
}

func hugetlbMetrics() []metric {
	return []metric{
		{groupHugetlb, "container_hugetlb_usage_bytes", "Huge pages in use, in bytes.", gauge, []string{"pagesize"},
			both, hugetlb(func(h hugetlbStats) *uint64 { return &h.usage })},
		{groupHugetlb, "container_hugetlb_max_usage_bytes", "Peak huge pages in use, in bytes (cgroup v1).",
			gauge, []string{"pagesize"}, both, hugetlb(func(h hugetlbStats) *uint64 { return h.peak })},
		{groupHugetlb, "container_hugetlb_failcnt", "How often the limit of huge pages was hit.", counter,
			[]string{"pagesize"}, both, hugetlb(func(h hugetlbStats) *uint64 { return h.failures })},
	}
}

func oomMetrics() []metric {
	return []metric{
		{groupOOM, "container_oom_events_total",
			"Processes killed by the OOM killer (for pods: cgroup v2 only).", counter, nil, both,
			known(func(f *cgroupStats) *uint64 { return f.oom })},
		{groupOOM, "container_memory_events_high_total", "How often memory.high was hit (cgroup v2).", counter, nil,
			both, known(func(f *cgroupStats) *uint64 { return f.highEvents })},
		{groupOOM, "container_memory_events_max_total", "How often memory.max was hit (cgroup v2).", counter, nil, both,
			known(func(f *cgroupStats) *uint64 { return f.maxEvents })},
	}
}

func pressureMetrics() []metric {
	return []metric{
		{groupPressure, "container_pressure_cpu_waiting_seconds_total",
			"Time in which a task waited for the CPU, in seconds.", counter, nil, both, some(cpuPressure)},
		{groupPressure, "container_pressure_cpu_stalled_seconds_total",
			"Time in which all tasks waited for the CPU, in seconds.", counter, nil, both, full(cpuPressure)},
		{groupPressure, "container_pressure_memory_waiting_seconds_total",
			"Time in which a task waited for memory, in seconds.", counter, nil, both, some(memoryPressure)},
		{groupPressure, "container_pressure_memory_stalled_seconds_total",
			"Time in which all tasks waited for memory, in seconds.", counter, nil, both, full(memoryPressure)},
		{groupPressure, "container_pressure_io_waiting_seconds_total",
			"Time in which a task waited for input or output, in seconds.", counter, nil, both, some(ioPressure)},
		{groupPressure, "container_pressure_io_stalled_seconds_total",
			"Time in which all tasks waited for input or output, in seconds.", counter, nil, both, full(ioPressure)},
	}
}

func processMetrics() []metric {
	return []metric{
		{groupProcess, "container_threads", "Tasks: processes and their threads.", gauge, nil, both, threads},
		{groupProcess, "container_threads_max", "The limit of tasks, 0 for none.", gauge, nil, both, threadsMax},
		{groupProcess, "container_processes", "Processes.", gauge, nil, ofContainer,
			process(func(p *processDetail) *uint64 { return p.processes })},
		{groupProcess, "container_tasks_state", "Tasks by state.", gauge, []string{"state"}, ofContainer, tasksState},
		{groupProcess, "container_ulimits_soft", "Soft limits of the container's first process.", gauge,
			[]string{"ulimit"}, ofContainer, openFilesLimit},
		{groupDescriptors, "container_file_descriptors", "Open file descriptors.", gauge, nil, ofContainer,
			process(func(p *processDetail) *uint64 { return p.descriptors })},
		{groupDescriptors, "container_sockets", "Open sockets.", gauge, nil, ofContainer,
			process(func(p *processDetail) *uint64 { return p.sockets })},
	}
}

func diskMetrics() []metric {
	device := []string{"device"}
	return []metric{
		{groupDisk, "container_fs_usage_bytes", "What the container has written to its own layer, in bytes.", gauge,
			device, ofContainer, disk(func(l *layerUsage) *uint64 { return &l.bytes })},
		{groupDisk, "container_fs_limit_bytes", "The size of the filesystem of the container's layer, in bytes.", gauge,
			device, ofContainer, disk(func(l *layerUsage) *uint64 { return &l.filesystem.bytes })},
		{groupDisk, "container_fs_inodes_total", "The inodes of the filesystem of the container's layer.", gauge,
			device, ofContainer, disk(func(l *layerUsage) *uint64 { return l.filesystem.inodes })},
		{groupDisk, "container_fs_inodes_free", "The free inodes of the filesystem of the container's layer.", gauge,
			device, ofContainer, disk(func(l *layerUsage) *uint64 { return l.filesystem.freeInodes })},
	}
}

func blockIOMetrics() []metric {
	device := []string{"device"}
	return []metric{
		{groupDiskIO, "container_fs_reads_bytes_total", "Bytes read from the device.", counter, device, both,
			blockIO(func(d deviceIO) *uint64 { return d.read.bytes })},
		{groupDiskIO, "container_fs_reads_total", "Reads from the device.", counter, device, both,
			blockIO(func(d deviceIO) *uint64 { return d.read.operations })},
		{groupDiskIO, "container_fs_writes_bytes_total", "Bytes written to the device.", counter, device, both,
			blockIO(func(d deviceIO) *uint64 { return d.write.bytes })},
		{groupDiskIO, "container_fs_writes_total", "Writes to the device.", counter, device, both,
			blockIO(func(d deviceIO) *uint64 { return d.write.operations })},
		{groupDiskIO, "container_fs_sector_reads_total", "Sectors of 512 bytes read from the device.", counter, device,
			both, blockIO(func(d deviceIO) *uint64 { return d.read.sectors() })},
		{groupDiskIO, "container_fs_sector_writes_total", "Sectors of 512 bytes written to the device.", counter,
			device, both, blockIO(func(d deviceIO) *uint64 { return d.write.sectors() })},
		{groupDiskIO, "container_fs_reads_merged_total",
			"Reads that the I/O scheduler merged (cgroup v1 with CFQ, or BFQ and its statistics).", counter, device,
			both, blockIO(func(d deviceIO) *uint64 { return d.read.merged })},
		{groupDiskIO, "container_fs_writes_merged_total",
			"Writes that the I/O scheduler merged (cgroup v1 with CFQ, or BFQ and its statistics).", counter, device,
			both, blockIO(func(d deviceIO) *uint64 { return d.write.merged })},
		{groupDiskIO, "container_fs_read_seconds_total",
			"Time that reads took, in seconds (cgroup v1 with CFQ, or BFQ and its statistics).", counter, device, both,
			blockIO(func(d deviceIO) *uint64 { return wholeSeconds(d.read.serviceTime) })},
		{groupDiskIO, "container_fs_write_seconds_total",
			"Time that writes took, in seconds (cgroup v1 with CFQ, or BFQ and its statistics).", counter, device, both,
			blockIO(func(d deviceIO) *uint64 { return wholeSeconds(d.write.serviceTime) })},
		{groupDiskIO, "container_fs_io_current",
			"Reads and writes in the I/O scheduler's queue (cgroup v1 with CFQ, or BFQ and its statistics).", gauge,
			device, both, blockIO(func(d deviceIO) *uint64 { return plus(d.read.queued, d.write.queued) })},
		{groupDiskIO, "container_fs_io_time_seconds_total",
			"Time that reads and writes took, in seconds (cgroup v1 with CFQ, or BFQ and its statistics).", counter,
			device, both,
			blockIO(func(d deviceIO) *uint64 { return wholeSeconds(plus(d.read.serviceTime, d.write.serviceTime)) })},
		{groupDiskIO, "container_fs_io_cost_usage_seconds_total",
			"Device time used, as io.cost counts it, in seconds (cgroup v2 with io.cost).", counter, device,
			both, ioCost(func(c *ioCostStats) uint64 { return c.usage })},
		{groupDiskIO, "container_fs_io_cost_wait_seconds_total",
			"Time spent waiting for io.cost's budget, in seconds (cgroup v2 with io.cost).", counter, device, both,
			ioCost(func(c *ioCostStats) uint64 { return c.wait })},
		{groupDiskIO, "container_fs_io_cost_indebt_seconds_total",
			"Time spent in debt to io.cost, in seconds (cgroup v2 with io.cost).", counter, device, both,
			ioCost(func(c *ioCostStats) uint64 { return c.inDebt })},
		{groupDiskIO, "container_fs_io_cost_indelay_seconds_total",
			"Time for which io.cost delayed tasks, in seconds (cgroup v2 with io.cost).", counter, device, both,
			ioCost(func(c *ioCostStats) uint64 { return c.inDelay })},
		{groupDiskIO, "container_blkio_device_usage_total", "Bytes read from and written to the device.", counter,
			[]string{"device", "major", "minor", "operation"}, both, blkio},
	}
}

func networkMetrics() []metric {
	iface := []string{"interface"}
	return []metric{
		{groupNetwork, "container_network_receive_bytes_total", "Bytes received.", counter, iface, ofNetwork,
			network(func(i netInterface) uint64 { return i.rx.bytes })},
		{groupNetwork, "container_network_receive_packets_total", "Packets received.", counter, iface, ofNetwork,
			network(func(i netInterface) uint64 { return i.rx.packets })},
		{groupNetwork, "container_network_receive_packets_dropped_total", "Packets dropped while receiving.", counter,
			iface, ofNetwork, network(func(i netInterface) uint64 { return i.rx.dropped })},
		{groupNetwork, "container_network_receive_errors_total", "Errors while receiving.", counter, iface, ofNetwork,
			network(func(i netInterface) uint64 { return i.rx.errors })},
		{groupNetwork, "container_network_transmit_bytes_total", "Bytes sent.", counter, iface, ofNetwork,
			network(func(i netInterface) uint64 { return i.tx.bytes })},
		{groupNetwork, "container_network_transmit_packets_total", "Packets sent.", counter, iface, ofNetwork,
			network(func(i netInterface) uint64 { return i.tx.packets })},
		{groupNetwork, "container_network_transmit_packets_dropped_total", "Packets dropped while sending.", counter,
			iface, ofNetwork, network(func(i netInterface) uint64 { return i.tx.dropped })},
		{groupNetwork, "container_network_transmit_errors_total", "Errors while sending.", counter, iface, ofNetwork,
			network(func(i netInterface) uint64 { return i.tx.errors })},
	}
}

func specMetrics() []metric {
	return []metric{
		{groupSpec, "container_spec_cpu_period", "The period of the CPU quota, in microseconds.", gauge, nil,
			ofContainer, spec((*runtimeapi.LinuxContainerResources).GetCpuPeriod)},
		{groupSpec, "container_spec_cpu_quota", "The CPU quota, in microseconds per period.", gauge, nil, ofContainer,
			spec((*runtimeapi.LinuxContainerResources).GetCpuQuota)},
		{groupSpec, "container_spec_cpu_shares", "The CPU shares.", gauge, nil, ofContainer,
			spec((*runtimeapi.LinuxContainerResources).GetCpuShares)},
		{groupSpec, "container_spec_memory_limit_bytes", "The memory limit in bytes, 0 for none.", gauge, nil,
			ofContainer, limit((*runtimeapi.LinuxContainerResources).GetMemoryLimitInBytes)},
		{groupSpec, "container_spec_memory_reservation_limit_bytes",
			"The memory that the kernel reclaims last, in bytes (memory.low or " +
				"memory.soft_limit_in_bytes), 0 for none.", gauge, nil, ofContainer,
			known(func(s *cgroupStats) *uint64 { return s.reservation })},
		{groupSpec, "container_spec_memory_swap_limit_bytes", "The limit of memory and swap in bytes, 0 for none.",
			gauge, nil, ofContainer, limit((*runtimeapi.LinuxContainerResources).GetMemorySwapLimitInBytes)},
	}
}
