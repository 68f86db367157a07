package stats

import (
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// seconds rounds down to whole seconds, because values of CRI metrics are integers.
func seconds(nanoseconds uint64) uint64 { return nanoseconds / uint64(time.Second) }

// wholeSeconds is seconds for a value that may be unknown.
func wholeSeconds(nanoseconds *uint64) *uint64 {
	if nanoseconds == nil {
		return nil
	}
	return new(seconds(*nanoseconds))
}

func unixSeconds(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }

func lastSeen(s *subject, emit emit) { emit(unixSeconds(s.taken)) }

func startTime(s *subject, emit emit) { emitTime(s.started, emit) }

func creationTime(s *subject, emit emit) { emitTime(s.container.Meta.CreatedAt, emit) }

func emitTime(t time.Time, emit emit) {
	if !t.IsZero() {
		emit(unixSeconds(t))
	}
}

func cpuTotal(s *subject, emit emit) {
	if s.cpu != nil {
		emit(seconds(s.cpu.usage), "total")
	}
}

func cpuMode(get func(*cpuStats) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.cpu != nil && s.cpu.hasModes {
			emit(seconds(get(s.cpu)))
		}
	}
}

// quota collects a count of CPU periods, which exists only under a CPU quota.
func quota(get func(*cpuStats) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.cpu != nil && s.cpu.hasThrottled && s.cpu.periods > 0 {
			emit(get(s.cpu))
		}
	}
}

// burst collects a count of bursts, which newer kernels have under a CPU quota.
func burst(get func(*cpuStats) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.cpu != nil && s.cpu.periods > 0 {
			emitIfKnown(emit, get(s.cpu))
		}
	}
}

func memory(get func(*memoryStats) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.memory != nil {
			emitIfKnown(emit, get(s.memory))
		}
	}
}

// memoryDetail collects one of memoryDetails.
func memoryDetail(name string) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.memory == nil {
			return
		}
		if n, known := s.memory.detail[name]; known {
			emit(n)
		}
	}
}

// emitIfKnown emits a value unless it is unknown.
func emitIfKnown(emit emit, n *uint64, own ...string) {
	if n != nil {
		emit(*n, own...)
	}
}

// pageFaults emits the same value for both scopes, like the kubelet, because a container is a hierarchy of its own.
func pageFaults(s *subject, emit emit) {
	if s.memory == nil {
		return
	}
	for _, scope := range []string{"container", "hierarchy"} {
		emitIfKnown(emit, s.memory.faults, "pgfault", scope)
		emitIfKnown(emit, s.memory.majorFaults, "pgmajfault", scope)
	}
}

func known(get func(*cgroupStats) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		emitIfKnown(emit, get(&s.cgroupStats))
	}
}

func cpuPressure(f *cgroupStats) *pressure { return f.cpuPressure }

func memoryPressure(f *cgroupStats) *pressure { return f.memoryPressure }

func ioPressure(f *cgroupStats) *pressure { return f.ioPressure }

func some(get func(*cgroupStats) *pressure) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if p := get(&s.cgroupStats); p != nil {
			emit(seconds(p.some.total))
		}
	}
}

func full(get func(*cgroupStats) *pressure) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if p := get(&s.cgroupStats); p != nil && p.hasFull {
			emit(seconds(p.full.total))
		}
	}
}

func threads(s *subject, emit emit) {
	if s.cgroupStats.processes != nil {
		emit(s.cgroupStats.processes.tasks)
	}
}

func threadsMax(s *subject, emit emit) {
	switch tasks := s.cgroupStats.processes; {
	case tasks == nil || tasks.limit == nil:
	case *tasks.limit == unlimited:
		emit(0)
	default:
		emit(*tasks.limit)
	}
}

func process(get func(*processDetail) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.processes != nil {
			emitIfKnown(emit, get(s.processes))
		}
	}
}

func openFilesLimit(s *subject, emit emit) {
	if s.processes != nil && s.processes.maxOpenFiles != nil {
		emit(*s.processes.maxOpenFiles, "max_open_files")
	}
}

func disk(get func(*layerUsage) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if s.layer != nil {
			emitIfKnown(emit, get(s.layer), s.devices.name(s.layer.filesystem.device))
		}
	}
}

func blockIO(get func(deviceIO) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		for _, d := range s.io {
			emitIfKnown(emit, get(d), s.devices.name(d.device))
		}
	}
}

func ioCost(get func(*ioCostStats) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		for _, d := range s.io {
			if d.cost != nil {
				emit(seconds(get(d.cost)), s.devices.name(d.device))
			}
		}
	}
}

func blkio(s *subject, emit emit) {
	for _, d := range s.io {
		name := s.devices.name(d.device)
		major, minor := strconv.FormatUint(uint64(d.device.major), 10), strconv.FormatUint(uint64(d.device.minor), 10)
		emitIfKnown(emit, d.read.bytes, name, major, minor, "Read")
		emitIfKnown(emit, d.write.bytes, name, major, minor, "Write")
	}
}

func hugetlb(get func(hugetlbStats) *uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		for _, h := range s.hugetlb {
			emitIfKnown(emit, get(h), h.pageSize)
		}
	}
}

// tasksState emits every state. A state without tasks is 0.
func tasksState(s *subject, emit emit) {
	if s.processes == nil || s.processes.tasks == nil {
		return
	}
	for _, state := range taskStates {
		emit(s.processes.tasks[state], state)
	}
}

func network(get func(netInterface) uint64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		for _, i := range s.interfaces {
			emit(get(i), i.name)
		}
	}
}

// spec collects a setting, and nothing if it is not set.
func spec(get func(*runtimeapi.LinuxContainerResources) int64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if n := get(s.container.Status.Resources.GetLinux()); n > 0 {
			emit(uint64(n))
		}
	}
}

// limit collects a setting, 0 if it is not set, and nothing if the resources are unknown.
func limit(get func(*runtimeapi.LinuxContainerResources) int64) func(*subject, emit) {
	return func(s *subject, emit emit) {
		if resources := s.container.Status.Resources.GetLinux(); resources != nil {
			emit(uint64(max(get(resources), 0)))
		}
	}
}
