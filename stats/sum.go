package stats

// sum adds up a sandbox and the containers of its pod. Limits and pressure
// cannot be added; what is unknown of one is counted as nothing.
func sum(sandbox look, containers []look) look {
	total := look{group: sandbox.group, figures: figures{taken: sandbox.taken}}
	total.add(sandbox)
	for _, container := range containers {
		total.add(container)
	}
	return total
}

func (total *look) add(other look) {
	if other.taken.After(total.taken) {
		total.taken = other.taken
	}
	if other.cpu != nil {
		if total.cpu == nil {
			total.cpu = &cpuFigures{}
		}
		total.cpu.usage += other.cpu.usage
	}
	if other.nanoCores != nil {
		if total.nanoCores == nil {
			total.nanoCores = new(uint64)
		}
		*total.nanoCores += *other.nanoCores
	}
	if other.memory != nil {
		if total.memory == nil {
			total.memory = &memoryFigures{limit: unlimited, swapLimit: unlimited}
		}
		total.memory.add(other.memory)
	}
	if other.processes != nil {
		if total.processes == nil {
			total.processes = &processFigures{limit: unlimited}
		}
		total.processes.tasks += other.processes.tasks
	}
}

func (m *memoryFigures) add(other *memoryFigures) {
	m.usage += other.usage
	m.rss += other.rss
	m.inactiveFile += min(other.inactiveFile, other.usage)
	m.faults += other.faults
	m.majorFaults += other.majorFaults
}
