package stats

// sum adds up a sandbox and the running containers of its pod. Limits and pressure cannot be added. A value that is
// unknown for one of them is unknown in the sum.
func sum(sandbox sample, containers []sample) sample {
	total := zeroSample()
	total.cgroup, total.taken = sandbox.cgroup, sandbox.taken
	total.add(sandbox)
	for _, container := range containers {
		if !container.sandboxed { // the sandbox's sample includes its usage
			total.add(container)
		}
	}
	return total
}

func (total *sample) add(other sample) {
	if other.taken.After(total.taken) {
		total.taken = other.taken
	}
	if total.cpu = ifBoth(total.cpu, other.cpu); total.cpu != nil {
		total.cpu.usage += other.cpu.usage
	}
	total.nanoCores = plus(total.nanoCores, other.nanoCores)
	if total.memory = ifBoth(total.memory, other.memory); total.memory != nil {
		total.memory.add(other.memory)
	}
	if total.processes = ifBoth(total.processes, other.processes); total.processes != nil {
		total.processes.tasks += other.processes.tasks
	}
}

// noMemory has 0 for all usage values, and no limits.
func noMemory() *memoryStats {
	return &memoryStats{
		limit: unlimited, swapLimit: unlimited,
		rss: new(uint64), inactiveFile: new(uint64), faults: new(uint64), majorFaults: new(uint64),
	}
}

func (m *memoryStats) add(other *memoryStats) {
	m.usage += other.usage
	m.rss = plus(m.rss, other.rss)
	m.faults = plus(m.faults, other.faults)
	m.majorFaults = plus(m.majorFaults, other.majorFaults)
	if m.inactiveFile = ifBoth(m.inactiveFile, other.inactiveFile); m.inactiveFile != nil {
		*m.inactiveFile += min(*other.inactiveFile, other.usage)
	}
}

// ifBoth returns a, or nil if b is nil.
func ifBoth[T any](a, b *T) *T {
	if b == nil {
		return nil
	}
	return a
}

// plus adds two numbers. It returns nil if either is nil.
func plus(a, b *uint64) *uint64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}
