package fields

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// resourceRows are the limits of containers, when they are created and updated.
func resourceRows() []row {
	const resources = "LinuxContainerResources"
	return []row{
		{
			fields: of("LinuxContainerConfig", "resources", "security_context"),
			says:   leads,
		},
		{
			fields: of(resources, "cpu_period", "cpu_quota", "cpu_shares", "memory_limit_in_bytes", "cpuset_cpus",
				"cpuset_mems"),
			says: "They are the container's limits in the engine.",
			seen: []string{appFields + "/limits", "container.TestRigUpdate"},
			pods: []refusal{
				{"invalid pod resources", invalid, "config.linux.resources.cpu_period", func(r *request) {
					r.pod.Linux.Resources = &runtimeapi.LinuxContainerResources{CpuPeriod: 1}
				}},
				{"invalid pod overhead", invalid, "config.linux.overhead.memory_limit_in_bytes", func(r *request) {
					r.pod.Linux.Overhead = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: -1}
				}},
			},
			containers: []refusal{
				{"short CPU period", invalid, "config.linux.resources.cpu_period",
					limits(&runtimeapi.LinuxContainerResources{CpuPeriod: 999})},
				{"long CPU period", invalid, "config.linux.resources.cpu_period",
					limits(&runtimeapi.LinuxContainerResources{CpuPeriod: 1_000_001})},
				{"small CPU quota", invalid, "config.linux.resources.cpu_quota",
					limits(&runtimeapi.LinuxContainerResources{CpuQuota: 999})},
				{"negative CPU quota", invalid, "config.linux.resources.cpu_quota",
					limits(&runtimeapi.LinuxContainerResources{CpuQuota: -2})},
				{"negative CPU shares", invalid, "config.linux.resources.cpu_shares",
					limits(&runtimeapi.LinuxContainerResources{CpuShares: -1})},
				{"negative memory", invalid, "config.linux.resources.memory_limit_in_bytes",
					limits(&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: -1})},
				{"CPU set that is not a list", invalid, "config.linux.resources.cpuset_cpus",
					limits(&runtimeapi.LinuxContainerResources{CpusetCpus: "a"})},
				{"CPU set with a backward range", invalid, "config.linux.resources.cpuset_cpus",
					limits(&runtimeapi.LinuxContainerResources{CpusetCpus: "3-1"})},
				{"memory nodes that are not a list", invalid, "config.linux.resources.cpuset_mems",
					limits(&runtimeapi.LinuxContainerResources{CpusetMems: "0,"})},
			},
		},
		{
			fields: of(resources, "memory_swap_limit_in_bytes"),
			says: "It counts memory plus swap and needs memory_limit_in_bytes; a container with a memory limit " +
				"alone gets no swap. On a node without swap accounting it has no effect.",
			seen: []string{appFields + "/limits", openFields},
			containers: []refusal{
				{"swap without memory", invalid, "config.linux.resources.memory_swap_limit_in_bytes",
					limits(&runtimeapi.LinuxContainerResources{MemorySwapLimitInBytes: 1 << 20})},
				{"less swap than memory", invalid, "config.linux.resources.memory_swap_limit_in_bytes",
					limits(
						&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 2 << 20,
							MemorySwapLimitInBytes: 1 << 20})},
				{"negative swap", invalid, "config.linux.resources.memory_swap_limit_in_bytes",
					limits(&runtimeapi.LinuxContainerResources{MemorySwapLimitInBytes: -2})},
			},
		},
		{
			fields: of(resources, "oom_score_adj"),
			says: "It is set when the container is created. An update sets it for every process of the container. " +
				"An engine without CAP_SYS_RESOURCE raises negative values to 0. If criadapter itself lacks " +
				"CAP_SYS_RESOURCE, it cannot lower the value at an update, and logs a warning.",
			seen: []string{appFields + "/limits", "container.TestRigUpdateOfTheOOMScore"},
			containers: []refusal{
				{"low OOM score", invalid, "config.linux.resources.oom_score_adj",
					limits(&runtimeapi.LinuxContainerResources{OomScoreAdj: -1001})},
				{"high OOM score", invalid, "config.linux.resources.oom_score_adj",
					limits(&runtimeapi.LinuxContainerResources{OomScoreAdj: 1001})},
			},
		},
		{
			fields: append(of(resources, "hugepage_limits"), of("HugepageLimit", "page_size", "limit")...),
			by:     "container",
			says: "With `criadapter-oci` they apply from the container's start on; without it they are written to " +
				"the cgroup right after the start. They have no effect without the hugetlb controller.",
			seen: []string{appFields + "/limits", noteFields + "/limits from the start on"},
			containers: []refusal{
				{"huge page size that is a path", invalid, "config.linux.resources.hugepage_limits[0].page_size",
					limits(
						&runtimeapi.LinuxContainerResources{
							HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB/"}}})},
				{"no huge page size", invalid, "config.linux.resources.hugepage_limits[0].page_size",
					limits(&runtimeapi.LinuxContainerResources{HugepageLimits: []*runtimeapi.HugepageLimit{nil}})},
			},
		},
		{
			fields: of(resources, "unified"),
			says: "With `criadapter-oci` they apply from the container's start on; without it they are written " +
				"to the cgroup right after the start.",
			refuses: "on cgroup v1 every key, except `memory.swap.max`, which the engine limits, and keys with the " +
				"value `max`",
			seen: []string{noteFields + "/limits from the start on", noteFields + "/unified keys on cgroup v1"},
			uses: []use{
				{"LinuxContainerResources.unified", func(r *request) {
					r.container.Linux.Resources.Unified = map[string]string{"memory.high": "1048576"}
				}},
			},
			containers: []refusal{
				{"swap that is not a number", invalid, "config.linux.resources.unified",
					limits(
						&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 20,
							Unified: map[string]string{"memory.swap.max": "lots"}})},
				{"unified key that is a path", invalid, "config.linux.resources.unified",
					limits(&runtimeapi.LinuxContainerResources{Unified: map[string]string{"../memory.max": "0"}})},
			},
		},
	}
}
