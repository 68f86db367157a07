package fields

// resourceRows are the limits of containers, at the create and at an update.
func resourceRows() []row {
	const limits = "LinuxContainerResources"
	return []row{
		{
			fields: of("LinuxContainerConfig", "resources", "security_context"), is: implemented,
			says: "Their fields have rows of their own.",
		},
		{
			fields: of(limits, "cpu_period", "cpu_quota", "cpu_shares", "memory_limit_in_bytes", "cpuset_cpus", "cpuset_mems"), is: implemented,
			says: "They are the container's limits in the engine.",
		},
		{
			fields: of(limits, "memory_swap_limit_in_bytes"), is: implemented,
			says: "It counts memory and swap together and goes with memory_limit_in_bytes; without it a container with a memory limit gets no swap. On a node without swap accounting it has no effect.",
		},
		{
			fields: of(limits, "oom_score_adj"), is: implemented,
			says: "It is set at the create, and at an update for every process of the container; an engine without CAP_SYS_RESOURCE raises negative values to 0, and criadapter without it lowers none at an update, with a warning in its log.",
		},
		{
			fields: append(of(limits, "hugepage_limits"), of("HugepageLimit", "page_size", "limit")...), is: implemented,
			says: "They are the container's from its start on with `criadapter-oci`, and written to its cgroup right after the start without it; they have no effect without the controller hugetlb.",
		},
		{
			fields: of(limits, "unified"), is: implemented,
			says:    "They are the container's from its start on with `criadapter-oci`, and written to its cgroup right after the start without it.",
			refuses: "on cgroup v1 all but `memory.swap.max`, which the engine limits, and keys whose value is `max`",
			needs:   needsCgroup2, has: hasCgroup2,
		},
	}
}
