package stats

import (
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The groups of metrics, which a configuration may leave out.
const (
	groupCPU         = "cpu"
	groupDescriptors = "descriptors"
	groupDisk        = "disk"
	groupDiskIO      = "diskio"
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
)

// metricTable returns the CRI metrics: those of the kubelet's /metrics/cadvisor
// that mean something for a container, under the same names.
func metricTable() []metric {
	const both = ofContainer | ofPod
	device, iface := []string{"device"}, []string{"interface"}
	return []metric{
		{groupLifecycle, "container_last_seen", "When the container was last seen, in seconds since 1970.", gauge, nil, both, lastSeen},
		{groupLifecycle, "container_start_time_seconds", "When the container was started, in seconds since 1970.", gauge, nil, ofContainer, startTime},
		{groupLifecycle, "container_creation_time_seconds", "When the container was created, in seconds since 1970.", gauge, nil, ofContainer, creationTime},

		{groupCPU, "container_cpu_usage_seconds_total", "CPU time used, in seconds.", counter, []string{"cpu"}, both, cpuTotal},
		{groupCPU, "container_cpu_user_seconds_total", "CPU time used in user mode, in seconds.", counter, nil, both, cpuMode(func(c *cpuFigures) uint64 { return c.user })},
		{groupCPU, "container_cpu_system_seconds_total", "CPU time used in kernel mode, in seconds.", counter, nil, both, cpuMode(func(c *cpuFigures) uint64 { return c.system })},
		{groupCPU, "container_cpu_cfs_periods_total", "Periods of the CPU quota that have passed.", counter, nil, both, quota(func(c *cpuFigures) uint64 { return c.periods })},
		{groupCPU, "container_cpu_cfs_throttled_periods_total", "Periods in which the CPU quota was used up.", counter, nil, both, quota(func(c *cpuFigures) uint64 { return c.throttled })},
		{groupCPU, "container_cpu_cfs_throttled_seconds_total", "Time spent waiting for more CPU quota, in seconds.", counter, nil, both, quota(func(c *cpuFigures) uint64 { return seconds(c.throttledTime) })},

		{groupMemory, "container_memory_usage_bytes", "Memory in use, all of it, in bytes.", gauge, nil, both, memory(func(m *memoryFigures) uint64 { return m.usage })},
		{groupMemory, "container_memory_working_set_bytes", "Memory in use without the page cache that was not used lately, in bytes.", gauge, nil, both, memory((*memoryFigures).workingSet)},
		{groupMemory, "container_memory_rss", "Anonymous memory, in bytes.", gauge, nil, both, memory(func(m *memoryFigures) uint64 { return m.rss })},
		{groupMemory, "container_memory_cache", "Page cache, in bytes.", gauge, nil, both, memory(func(m *memoryFigures) uint64 { return m.cache })},
		{groupMemory, "container_memory_mapped_file", "Mapped files, in bytes.", gauge, nil, both, memory(func(m *memoryFigures) uint64 { return m.mapped })},
		{groupMemory, "container_memory_total_active_file_bytes", "Page cache that was used lately, in bytes.", gauge, nil, both, memory(func(m *memoryFigures) uint64 { return m.activeFile })},
		{groupMemory, "container_memory_total_inactive_file_bytes", "Page cache that was not used lately, in bytes.", gauge, nil, both, memory(func(m *memoryFigures) uint64 { return m.inactiveFile })},
		{groupMemory, "container_memory_swap", "Memory swapped out, in bytes.", gauge, nil, both, memoryIf(func(m *memoryFigures) *uint64 { return m.swapIfKnown() })},
		{groupMemory, "container_memory_kernel_usage", "Memory of the kernel, in bytes.", gauge, nil, both, memoryIf(func(m *memoryFigures) *uint64 { return m.kernel })},
		{groupMemory, "container_memory_max_usage_bytes", "The most memory ever in use, in bytes.", gauge, nil, both, memoryIf(func(m *memoryFigures) *uint64 { return m.peak })},
		{groupMemory, "container_memory_failcnt", "How often the memory limit was hit (cgroup v1).", counter, nil, both, memoryIf(func(m *memoryFigures) *uint64 { return m.failures })},
		{groupMemory, "container_memory_failures_total", "Page faults.", counter, []string{"failure_type", "scope"}, both, pageFaults},

		{groupOOM, "container_oom_events_total", "Processes killed because memory ran out.", counter, nil, both, known(func(f *figures) *uint64 { return f.oom })},
		{groupOOM, "container_memory_events_high_total", "How often memory.high was hit (cgroup v2).", counter, nil, both, known(func(f *figures) *uint64 { return f.highEvents })},
		{groupOOM, "container_memory_events_max_total", "How often memory.max was hit (cgroup v2).", counter, nil, both, known(func(f *figures) *uint64 { return f.maxEvents })},

		{groupPressure, "container_pressure_cpu_waiting_seconds_total", "Time in which a task waited for the CPU, in seconds.", counter, nil, both, some(cpuPressure)},
		{groupPressure, "container_pressure_cpu_stalled_seconds_total", "Time in which all tasks waited for the CPU, in seconds.", counter, nil, both, full(cpuPressure)},
		{groupPressure, "container_pressure_memory_waiting_seconds_total", "Time in which a task waited for memory, in seconds.", counter, nil, both, some(memoryPressure)},
		{groupPressure, "container_pressure_memory_stalled_seconds_total", "Time in which all tasks waited for memory, in seconds.", counter, nil, both, full(memoryPressure)},
		{groupPressure, "container_pressure_io_waiting_seconds_total", "Time in which a task waited for input or output, in seconds.", counter, nil, both, some(ioPressure)},
		{groupPressure, "container_pressure_io_stalled_seconds_total", "Time in which all tasks waited for input or output, in seconds.", counter, nil, both, full(ioPressure)},

		{groupProcess, "container_threads", "Tasks: processes and their threads.", gauge, nil, both, threads},
		{groupProcess, "container_threads_max", "The limit of tasks, 0 for none.", gauge, nil, both, threadsMax},
		{groupProcess, "container_processes", "Processes.", gauge, nil, ofContainer, process(func(p *processDetail) uint64 { return p.processes })},
		{groupProcess, "container_ulimits_soft", "Soft limits of the container's first process.", gauge, []string{"ulimit"}, ofContainer, openFilesLimit},
		{groupDescriptors, "container_file_descriptors", "Open file descriptors.", gauge, nil, ofContainer, process(func(p *processDetail) uint64 { return p.descriptors })},
		{groupDescriptors, "container_sockets", "Open sockets.", gauge, nil, ofContainer, process(func(p *processDetail) uint64 { return p.sockets })},

		{groupDisk, "container_fs_usage_bytes", "What the container has written to its own layer, in bytes.", gauge, device, ofContainer, disk(func(l *layerUsage) uint64 { return l.bytes })},
		{groupDisk, "container_fs_limit_bytes", "The size of the filesystem of the container's layer, in bytes.", gauge, device, ofContainer, disk(func(l *layerUsage) uint64 { return l.filesystem.bytes })},
		{groupDisk, "container_fs_inodes_total", "The inodes of the filesystem of the container's layer.", gauge, device, ofContainer, disk(func(l *layerUsage) uint64 { return l.filesystem.inodes })},
		{groupDisk, "container_fs_inodes_free", "The free inodes of the filesystem of the container's layer.", gauge, device, ofContainer, disk(func(l *layerUsage) uint64 { return l.filesystem.freeInodes })},

		{groupDiskIO, "container_fs_reads_bytes_total", "Bytes read from the device.", counter, device, both, blockIO(func(d deviceIO) uint64 { return d.readBytes })},
		{groupDiskIO, "container_fs_reads_total", "Reads from the device.", counter, device, both, blockIO(func(d deviceIO) uint64 { return d.reads })},
		{groupDiskIO, "container_fs_writes_bytes_total", "Bytes written to the device.", counter, device, both, blockIO(func(d deviceIO) uint64 { return d.writtenBytes })},
		{groupDiskIO, "container_fs_writes_total", "Writes to the device.", counter, device, both, blockIO(func(d deviceIO) uint64 { return d.writes })},
		{groupDiskIO, "container_blkio_device_usage_total", "Bytes read from and written to the device.", counter, []string{"device", "major", "minor", "operation"}, both, blkio},

		{groupNetwork, "container_network_receive_bytes_total", "Bytes received.", counter, iface, ofNetwork, network(func(i netInterface) uint64 { return i.rx.bytes })},
		{groupNetwork, "container_network_receive_packets_total", "Packets received.", counter, iface, ofNetwork, network(func(i netInterface) uint64 { return i.rx.packets })},
		{groupNetwork, "container_network_receive_packets_dropped_total", "Packets dropped while receiving.", counter, iface, ofNetwork, network(func(i netInterface) uint64 { return i.rx.dropped })},
		{groupNetwork, "container_network_receive_errors_total", "Errors while receiving.", counter, iface, ofNetwork, network(func(i netInterface) uint64 { return i.rx.errors })},
		{groupNetwork, "container_network_transmit_bytes_total", "Bytes sent.", counter, iface, ofNetwork, network(func(i netInterface) uint64 { return i.tx.bytes })},
		{groupNetwork, "container_network_transmit_packets_total", "Packets sent.", counter, iface, ofNetwork, network(func(i netInterface) uint64 { return i.tx.packets })},
		{groupNetwork, "container_network_transmit_packets_dropped_total", "Packets dropped while sending.", counter, iface, ofNetwork, network(func(i netInterface) uint64 { return i.tx.dropped })},
		{groupNetwork, "container_network_transmit_errors_total", "Errors while sending.", counter, iface, ofNetwork, network(func(i netInterface) uint64 { return i.tx.errors })},

		{groupSpec, "container_spec_cpu_period", "The period of the CPU quota, in microseconds.", gauge, nil, ofContainer, spec((*runtimeapi.LinuxContainerResources).GetCpuPeriod)},
		{groupSpec, "container_spec_cpu_quota", "The CPU quota, in microseconds per period.", gauge, nil, ofContainer, spec((*runtimeapi.LinuxContainerResources).GetCpuQuota)},
		{groupSpec, "container_spec_cpu_shares", "The CPU shares.", gauge, nil, ofContainer, spec((*runtimeapi.LinuxContainerResources).GetCpuShares)},
		{groupSpec, "container_spec_memory_limit_bytes", "The memory limit in bytes, 0 for none.", gauge, nil, ofContainer, limit((*runtimeapi.LinuxContainerResources).GetMemoryLimitInBytes)},
		{groupSpec, "container_spec_memory_swap_limit_bytes", "The limit of memory and swap in bytes, 0 for none.", gauge, nil, ofContainer, limit((*runtimeapi.LinuxContainerResources).GetMemorySwapLimitInBytes)},
	}
}

// seconds are whole, because values of CRI metrics are.
func seconds(nanoseconds uint64) uint64 { return nanoseconds / uint64(time.Second) }

func unixSeconds(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }

func lastSeen(s *subject, emit emit) { emit(unixSeconds(s.taken)) }

func startTime(s *subject, emit emit) { emit(unixSeconds(s.container.Status.StartedAt)) }

func creationTime(s *subject, emit emit) { emit(unixSeconds(s.container.Meta.CreatedAt)) }

func cpuTotal(s *subject, emit emit) {
	if s.cpu != nil {
		emit(seconds(s.cpu.usage), "total")
	}
}

func cpuMode(get func(*cpuFigures) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.cpu != nil && s.cpu.hasModes {
			emit(seconds(get(s.cpu)))
		}
	}
}

// quota collects a figure that means something under a CPU quota: no period
// passes without one.
func quota(get func(*cpuFigures) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.cpu != nil && s.cpu.hasThrottled && s.cpu.periods > 0 {
			emit(get(s.cpu))
		}
	}
}

func memory(get func(*memoryFigures) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.memory != nil {
			emit(get(s.memory))
		}
	}
}

func memoryIf(get func(*memoryFigures) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.memory == nil {
			return
		}
		if n := get(s.memory); n != nil {
			emit(*n)
		}
	}
}

// pageFaults emits the same for both scopes, as the kubelet does: a container
// is a hierarchy of its own.
func pageFaults(s *subject, emit emit) {
	if s.memory == nil {
		return
	}
	for _, scope := range []string{"container", "hierarchy"} {
		emit(s.memory.faults, "pgfault", scope)
		emit(s.memory.majorFaults, "pgmajfault", scope)
	}
}

func known(get func(*figures) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if n := get(&s.figures); n != nil {
			emit(*n)
		}
	}
}

func cpuPressure(f *figures) *pressure { return f.cpuPressure }

func memoryPressure(f *figures) *pressure { return f.memoryPressure }

func ioPressure(f *figures) *pressure { return f.ioPressure }

func some(get func(*figures) *pressure) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if p := get(&s.figures); p != nil {
			emit(seconds(p.some.total))
		}
	}
}

func full(get func(*figures) *pressure) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if p := get(&s.figures); p != nil && p.hasFull {
			emit(seconds(p.full.total))
		}
	}
}

func threads(s *subject, emit emit) {
	if s.figures.processes != nil {
		emit(s.figures.processes.tasks)
	}
}

func threadsMax(s *subject, emit emit) {
	switch tasks := s.figures.processes; {
	case tasks == nil:
	case tasks.limit == unlimited:
		emit(0)
	default:
		emit(tasks.limit)
	}
}

func process(get func(*processDetail) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.processes != nil {
			emit(get(s.processes))
		}
	}
}

func openFilesLimit(s *subject, emit emit) {
	if s.processes != nil && s.processes.maxOpenFiles != nil {
		emit(*s.processes.maxOpenFiles, "max_open_files")
	}
}

func disk(get func(*layerUsage) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.layer != nil {
			emit(get(s.layer), s.devices.name(s.layer.filesystem.device))
		}
	}
}

func blockIO(get func(deviceIO) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		for _, d := range s.io {
			emit(get(d), s.devices.name(d.device))
		}
	}
}

func blkio(s *subject, emit emit) {
	for _, d := range s.io {
		name := s.devices.name(d.device)
		major, minor := strconv.FormatUint(uint64(d.device.major), 10), strconv.FormatUint(uint64(d.device.minor), 10)
		emit(d.readBytes, name, major, minor, "Read")
		emit(d.writtenBytes, name, major, minor, "Write")
	}
}

func network(get func(netInterface) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		for _, i := range s.interfaces {
			emit(get(i), i.name)
		}
	}
}

// spec collects a setting that is not there when it is not set.
func spec(get func(*runtimeapi.LinuxContainerResources) int64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if n := get(s.container.Status.Resources.GetLinux()); n > 0 {
			emit(uint64(n))
		}
	}
}

// limit collects a setting that is 0 when it is not set.
func limit(get func(*runtimeapi.LinuxContainerResources) int64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		emit(uint64(max(get(s.container.Status.Resources.GetLinux()), 0)))
	}
}
