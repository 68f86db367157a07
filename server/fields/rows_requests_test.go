package fields

import (
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// requestRows are the fields of the requests themselves, and of their filters.
func requestRows() []row {
	return slices.Concat(podRequestRows(), containerRequestRows(), []row{
		{
			fields: of("StatusRequest", "verbose"),
			says:   "It adds the configuration in force and the engine's abilities.",
			seen:   []string{"test/e2e.TestCrictlVersionAndInfo"},
		},
		{
			fields: slices.Concat(of("UpdateRuntimeConfigRequest", "runtime_config"),
				of("RuntimeConfig", "network_config"), of("NetworkConfig", "pod_cidr")),
			says:   "The CIDR is checked and shown by a verbose Status; addresses come from the CNI configuration.",
			unseen: "it changes nothing on the node; server's tests show it in a verbose Status",
		},
	})
}

func podRequestRows() []row {
	return []row{
		{
			fields: of("RunPodSandboxRequest", "config"),
			says:   leads,
			pods: []refusal{
				{"no config", invalid, "config", func(r *request) { r.pod = nil }},
			},
		},
		{
			fields: of("RunPodSandboxRequest", "runtime_handler"),
			says:   "It is the name of one of the engine's runtimes; an unknown one is invalid.",
			refuses: "a runtime that takes its interfaces when it boots, in a pod of a CNI network: the Docker " +
				"API cannot start it in a network namespace that CNI has prepared",
			seen: []string{"sandbox.TestRuntimeThatTakesItsInterfacesAtBootIsRefused"},
			uses: []use{
				{"RunPodSandboxRequest.runtime_handler", func(r *request) {
					r.handler = "kata"
					r.features.Runtimes, r.features.SandboxedRuntimes = []string{"kata"}, []string{"kata"}
				}},
			},
			pods: []refusal{
				{"unknown runtime", invalid, "runtime_handler", func(r *request) { r.handler = "kata" }},
			},
			containers: []refusal{
				{"runtime that is gone", invalid, "sandbox.runtime_handler", func(r *request) { r.handler = "gone" }},
			},
		},
		{
			fields: slices.Concat(of("StopPodSandboxRequest", "pod_sandbox_id"),
				of("RemovePodSandboxRequest", "pod_sandbox_id"),
				of("PodSandboxStatusRequest", "pod_sandbox_id"), of("PodSandboxStatsRequest", "pod_sandbox_id")),
			says: "It is the sandbox's id or a prefix of it.",
			seen: []string{"test/e2e.TestCrictlPod", "test/e2e.TestStatsOfAPodsOwnCgroup"},
		},
		{
			fields: of("PodSandboxStatusRequest", "verbose"),
			says:   "It adds the process, the configuration and the limits now in force.",
			seen:   []string{"test/e2e.TestCrictlPod"},
		},
		{
			fields: of("UpdatePodSandboxResourcesRequest", "pod_sandbox_id", "overhead", "resources"),
			says: "They are kept, and shown by a verbose PodSandboxStatus. They limit the pod's cgroup if criadapter " +
				"created it; a kubelet limits the cgroups that it creates.",
			seen: []string{podFields + "/the pod's cgroup"},
		},
		{
			fields: of("PortForwardRequest", "pod_sandbox_id", "port"),
			says:   "The stream leads to ports of the pod's network namespace.",
			seen:   []string{"test/e2e.TestPortForward"},
		},
		{
			fields: slices.Concat(of("ListPodSandboxRequest", "filter"), of("StreamPodSandboxesRequest", "filter"),
				of("ListPodSandboxStatsRequest", "filter"), of("StreamPodSandboxStatsRequest", "filter"),
				of("PodSandboxFilter", "id", "state", "label_selector"), of("PodSandboxStateValue", "state"),
				of("PodSandboxStatsFilter", "id", "label_selector")),
			says:   "All parts of a filter must match; an id may be a prefix.",
			unseen: "lists are answered from memory: server's tests of lists show each part of a filter",
		},
	}
}

func containerRequestRows() []row {
	return []row{
		{
			fields: of("CreateContainerRequest", "config"),
			says:   leads,
			containers: []refusal{
				{"no config", invalid, "config", func(r *request) { r.container = nil }},
			},
		},
		{
			fields: of("CreateContainerRequest", "pod_sandbox_id"),
			says:   "The container is made in that pod.",
			seen:   []string{"test/e2e.TestCrictlContainer", openFields},
			containers: []refusal{
				{"no sandbox", invalid, "pod_sandbox_id", func(r *request) { r.podID = "" }},
				{"malformed sandbox id", invalid, "pod_sandbox_id", func(r *request) { r.podID = "../x" }},
			},
		},
		{
			fields: of("CreateContainerRequest", "sandbox_config"),
			says: "It says whether the pod may have privileged containers. It replaces the configuration of a pod " +
				"that is known by its labels alone. Otherwise the configuration of RunPodSandbox counts. A " +
				"configuration of another pod is invalid.",
			seen: []string{"test/e2e.TestCrictlContainer", openFields},
			containers: []refusal{
				{"no pod", invalid, "sandbox_config", func(r *request) { r.pod = nil }},
				{"no pod metadata", invalid, "sandbox_config.metadata", func(r *request) {
					r.pod = &runtimeapi.PodSandboxConfig{}
				}},
				{"pod with another driver's cgroup parent", invalid, "sandbox_config.linux.cgroup_parent",
					func(r *request) {
						r.features, r.pod.Linux.CgroupParent = confined(), "/kubepods"
					}},
			},
		},
		{
			fields: slices.Concat(of("StartContainerRequest", "container_id"),
				of("RemoveContainerRequest", "container_id"),
				of("StopContainerRequest", "container_id"), of("ContainerStatusRequest", "container_id"),
				of("ContainerStatsRequest", "container_id"), of("ReopenContainerLogRequest", "container_id"),
				of("UpdateContainerResourcesRequest", "container_id")),
			says: "It is the container's id or a prefix of it.",
			seen: []string{"test/e2e.TestCrictlContainer", appFields + "/stop signal",
				"container.TestRigStopKillsAfterTheGracePeriod", "test/e2e.TestStatsAreTrue", "container.TestRigUpdate",
				"container.TestRigUpdateOfTheOOMScore", "test/kubelet.TestLogRotationLosesNothing"},
		},
		{
			fields: of("StopContainerRequest", "timeout"),
			says:   "The container is killed after this number of seconds.",
			seen:   []string{appFields + "/stop signal", "container.TestRigStopKillsAfterTheGracePeriod"},
		},
		{
			fields: of("ContainerStatusRequest", "verbose"),
			says:   "It adds the process, the configuration and the known part of the runtime's specification.",
			seen:   []string{"test/e2e.TestCrictlContainer"},
		},
		{
			fields: of("UpdateContainerResourcesRequest", "linux"),
			says:   "Values that are set replace the values in force, all of them or none.",
			seen:   []string{"container.TestRigUpdate", "container.TestRigUpdateOfTheOOMScore"},
		},
		{
			fields: of("ExecSyncRequest", "container_id", "cmd", "timeout"),
			says:   "The command runs in the container, and is killed with its children after that number of seconds.",
			seen:   []string{"container.TestRigExecSync", "container.TestRigExecSyncTimeoutKillsTheTree"},
		},
		{
			fields: append(of("ExecRequest", "container_id", "cmd", "tty", "stdin", "stdout", "stderr"),
				of("AttachRequest", "container_id", "tty", "stdin", "stdout", "stderr")...),
			says: "The answer is a URL that serves these streams of the command or of the container.",
			seen: []string{"test/e2e.TestExecStreams", "test/e2e.TestExecOnTerminal", "test/e2e.TestAttachAgain",
				"test/e2e.TestAttachOnTerminal"},
		},
		{
			fields: slices.Concat(of("ListContainersRequest", "filter"), of("StreamContainersRequest", "filter"),
				of("ListContainerStatsRequest", "filter"), of("StreamContainerStatsRequest", "filter"),
				of("ContainerFilter", "id", "state", "pod_sandbox_id", "label_selector"),
				of("ContainerStateValue", "state"),
				of("ContainerStatsFilter", "id", "pod_sandbox_id", "label_selector")),
			says:   "All parts of a filter must match; an id may be a prefix.",
			unseen: "lists are answered from memory: server's tests of lists show each part of a filter",
		},
	}
}

// checkpointRows are the fields of checkpoints.
func checkpointRows() []row {
	return []row{
		{
			fields: of("CheckpointContainerRequest", "container_id", "location", "timeout"),
			says: "The container's processes, its changed files and its descriptions are written to a tar " +
				"archive; it keeps running. If a requirement is missing, the call fails and names it.",
			unseen: "CRIU does not run on the rig's kernel: the tests of container and sandbox have an engine in " +
				"memory, the tests of docker recorded answers",
		},
		{
			fields: of("CheckpointPodRequest", "pod_sandbox_id", "output_path", "container_ids"),
			says: "All containers are paused, written to the directory and resumed. If a requirement is " +
				"missing, the call fails and names it.",
			unseen: "CRIU does not run on the rig's kernel: the tests of container and sandbox have an engine in " +
				"memory, the tests of docker recorded answers",
		},
		{
			fields: of("RestorePodRequest", "checkpoint_path", "config", "runtime_handler", "container_configs"),
			says: "A pod is made with containers. When they are started, they continue at the checkpoint. " +
				"If a requirement is missing, the call fails and names it.",
			unseen: "CRIU does not run on the rig's kernel: the tests of container and sandbox have an engine in " +
				"memory, the tests of docker recorded answers",
		},
	}
}
