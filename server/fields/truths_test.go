package fields

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// truth says where fields that are implemented are seen at work.
type truth struct {
	fields []string
	// tests are on the real engine, DIRECTORY.TestName or DIRECTORY.TestName/part.
	tests []string
	// elsewhere says why no test of a running container shows them, and what does.
	elsewhere string
}

// Tests that look at several fields.
const (
	kindsTest  = "docker/translate.TestEveryKindStarts"
	podFields  = "test/e2e.TestFieldsOfPods"
	appFields  = "test/e2e.TestFieldsOfContainers"
	usersTest  = "sandbox.TestPodWithAUserNamespace/held by the kernel"
	openFields = appFields + "/nothing confines it"
	noteFields = "test/e2e.TestFieldsOfNotes"
)

func seen(tests ...string) []string { return tests }

// parents are the fields that only lead to others.
func parents() []string {
	return slices.Concat(of("PodSandboxConfig", "metadata", "linux", "dns_config", "port_mappings"), of("LinuxPodSandboxConfig", "security_context"),
		of("ContainerConfig", "metadata", "image", "mounts", "devices", "linux", "CDI_devices"), of("LinuxContainerConfig", "resources", "security_context"),
		of("LinuxSandboxSecurityContext", "namespace_options", "selinux_options"), of("LinuxContainerSecurityContext", "namespace_options", "selinux_options", "capabilities"),
		of("RunPodSandboxRequest", "config"), of("CreateContainerRequest", "config"), of("RuntimeConfig", "network_config"), of("UpdateRuntimeConfigRequest", "runtime_config"),
		of("Int64Value", "value"), of("SecurityProfile", "profile_type", "localhost_ref"), of("PullImageRequest", "image", "auth"))
}

func truths() []truth {
	return slices.Concat(podTruths(), containerTruths(), securityTruths(), requestTruths(), []truth{
		{fields: parents(), elsewhere: "the fields below them are seen"},
	})
}

func podTruths() []truth {
	return []truth{
		{fields: of("PodSandboxMetadata", "name", "uid", "namespace", "attempt"), tests: seen("test/e2e.TestCrictlPod", kindsTest+"/difficult names")},
		{fields: of("PodSandboxConfig", "hostname"), tests: seen(podFields+"/names and DNS", kindsTest+"/sysctls and a host name")},
		{fields: of("PodSandboxConfig", "log_directory"), tests: seen(appFields + "/process")},
		{fields: of("PodSandboxConfig", "labels", "annotations"), tests: seen("test/e2e.TestCrictlPod", "docker/translate.TestNothingLeaksIntoAPod")},
		{fields: of("DNSConfig", "servers", "searches", "options"), tests: seen(podFields + "/names and DNS")},
		{fields: of("PortMapping", "protocol", "container_port", "host_port"), tests: seen(podFields + "/both IP families and host ports")},
		{fields: of("PortMapping", "host_ip"), tests: seen("test/e2e.TestSystemBridgeNetwork")},
		{fields: of("LinuxPodSandboxConfig", "cgroup_parent", "overhead", "resources"), tests: seen(podFields + "/the pod's cgroup")},
		{fields: of("LinuxPodSandboxConfig", "sysctls"), tests: seen(openFields, kindsTest+"/sysctls and a host name")},
		{fields: of("NamespaceOption", "network", "pid", "ipc"), tests: seen(kindsTest+"/nothing special", kindsTest+"/own PIDs", kindsTest+"/the node's namespaces", kindsTest+"/own IPC")},
		{fields: of("NamespaceOption", "target_id"), tests: seen("docker/translate.TestTargetPID")},
		{fields: append(of("NamespaceOption", "userns_options"), of("UserNamespace", "mode")...), tests: seen(usersTest)},
		{fields: append(of("UserNamespace", "uids", "gids"), of("IDMapping", "host_id", "container_id", "length")...), tests: seen(usersTest)},
	}
}

func containerTruths() []truth {
	const limits = "LinuxContainerResources"
	return []truth{
		{fields: of("ContainerMetadata", "name", "attempt"), tests: seen("test/e2e.TestCrictlContainer", kindsTest+"/difficult names")},
		{fields: append(of("ContainerConfig", "command", "args", "working_dir", "envs", "log_path"), of("KeyValue", "key", "value")...), tests: seen(appFields + "/process")},
		{fields: of("ContainerConfig", "labels", "annotations"), tests: seen("docker/translate.TestNothingLeaksIntoAPod")},
		{fields: of("ContainerConfig", "stdin"), tests: seen("test/e2e.TestAttachAgain")},
		{fields: of("ContainerConfig", "stdin_once"), tests: seen("test/e2e.TestAttachStdinOnce")},
		{fields: of("ContainerConfig", "tty"), tests: seen("test/e2e.TestAttachOnTerminal", kindsTest+"/a terminal")},
		{fields: of("ContainerConfig", "stop_signal"), tests: seen(appFields+"/stop signal", kindsTest+"/a real-time stop signal")},
		{fields: of("Device", "container_path", "host_path", "permissions"), tests: seen(appFields+"/devices", kindsTest+"/devices")},
		{fields: of("CDIDevice", "name"), tests: seen("test/e2e.TestCDIDevices")},
		{fields: of("Mount", "container_path", "host_path"), tests: seen(appFields+"/paths", "container.TestRigMountSourceThatCannotBe")},
		{fields: of("Mount", "readonly"), tests: seen(appFields + "/paths")},
		{fields: of("Mount", "propagation"), tests: seen(appFields+"/paths", kindsTest+"/mounts")},
		{fields: of("Mount", "recursive_read_only"), tests: seen(noteFields + "/recursive read-only")},
		{fields: of("Mount", "mount_options"), tests: seen(noteFields + "/mount options")},
		{fields: of("Mount", "uidMappings", "gidMappings"), tests: seen(usersTest)},
		{fields: of("Mount", "selinux_relabel"), elsewhere: "no SELinux in the rig's kernel; docker/translate.TestRelabelledMounts shows what the engine gets"},
		{fields: of("SELinuxOption", "user", "role", "type", "level"), elsewhere: "no SELinux in the rig's kernel; docker/translate's golden files show what the engine gets"},
		{fields: of("Mount", "image", "image_sub_path"), tests: seen("test/e2e.TestImageVolumes")},
		{fields: of(limits, "cpu_period", "cpu_quota", "cpu_shares", "memory_limit_in_bytes", "cpuset_cpus", "cpuset_mems"), tests: seen(appFields+"/limits", "container.TestRigUpdate")},
		{fields: of(limits, "memory_swap_limit_in_bytes"), tests: seen(appFields+"/limits", openFields)},
		{fields: of(limits, "oom_score_adj"), tests: seen(appFields+"/limits", "container.TestRigUpdateOfTheOOMScore")},
		{fields: append(of(limits, "hugepage_limits"), of("HugepageLimit", "page_size", "limit")...), tests: seen(appFields+"/limits", noteFields+"/limits from the start on")},
		{fields: of(limits, "unified"), tests: seen(noteFields+"/limits from the start on", noteFields+"/unified keys on cgroup v1")},
		{fields: of("ImageSpec", "image", "user_specified_image"), tests: seen("test/e2e.TestImageReferences")},
		{fields: of("ImageSpec", "image_ref"), tests: seen("test/e2e.TestImageVolumes")},
		{fields: of("ImageSpec", "runtime_handler"), elsewhere: "all that it does is to be refused: docker/translate.TestContainerRefusals"},
	}
}

func securityTruths() []truth {
	const pod, container = "LinuxSandboxSecurityContext", "LinuxContainerSecurityContext"
	return []truth{
		{fields: of(container, "run_as_user", "run_as_group"), tests: seen(openFields, kindsTest+"/user and groups")},
		{fields: of(container, "run_as_username", "supplemental_groups"), tests: seen(appFields + "/process")},
		{fields: slices.Concat(of(pod, "supplemental_groups_policy"), of(container, "supplemental_groups_policy"), of("Capability", "add_ambient_capabilities")), tests: seen(noteFields+"/strict groups", noteFields+"/ambient capabilities")},
		{fields: of(container, "readonly_rootfs", "no_new_privs"), tests: seen(appFields+"/process", openFields)},
		{fields: of(container, "masked_paths", "readonly_paths"), tests: seen(appFields+"/paths", openFields, kindsTest+"/masked paths", kindsTest+"/no masked paths")},
		{fields: append(of(container, "privileged"), of(pod, "privileged")...), tests: seen(kindsTest+"/privileged", openFields)},
		{fields: of("Capability", "add_capabilities", "drop_capabilities"), tests: seen(appFields+"/process", openFields, kindsTest+"/capabilities")},
		{fields: of(container, "seccomp"), tests: seen(appFields+"/process", openFields, kindsTest+"/seccomp default", kindsTest+"/seccomp profile without system calls")},
		{fields: append(of(container, "seccomp_profile_path", "apparmor_profile"), of(pod, "seccomp_profile_path")...), elsewhere: "the newer field's row has the truth; docker/translate's tests of profiles show that they are read alike"},
		{fields: append(of(container, "apparmor"), of(pod, "apparmor")...), elsewhere: "no AppArmor in the rig's kernel; critest tries it where there is"},
		{fields: of(pod, "run_as_user", "run_as_group", "readonly_rootfs", "supplemental_groups", "seccomp"), elsewhere: "they are of a program that only waits; docker/translate's golden files show what the engine gets"},
	}
}

func requestTruths() []truth {
	const filters = "lists are answered from memory: server's tests of lists show each part of a filter"
	return []truth{
		{fields: of("RunPodSandboxRequest", "runtime_handler"), tests: seen("sandbox.TestRuntimeThatTakesItsInterfacesAtBootIsRefused")},
		{fields: slices.Concat(of("StopPodSandboxRequest", "pod_sandbox_id"), of("RemovePodSandboxRequest", "pod_sandbox_id"), of("PodSandboxStatusRequest", "pod_sandbox_id", "verbose")), tests: seen("test/e2e.TestCrictlPod")},
		{fields: of("PodSandboxStatsRequest", "pod_sandbox_id"), tests: seen("test/e2e.TestStatsOfAPodsOwnCgroup")},
		{fields: of("UpdatePodSandboxResourcesRequest", "pod_sandbox_id", "overhead", "resources"), tests: seen(podFields + "/the pod's cgroup")},
		{fields: of("PortForwardRequest", "pod_sandbox_id", "port"), tests: seen("test/e2e.TestPortForward")},
		{fields: of("CreateContainerRequest", "pod_sandbox_id", "sandbox_config"), tests: seen("test/e2e.TestCrictlContainer", openFields)},
		{fields: slices.Concat(of("StartContainerRequest", "container_id"), of("RemoveContainerRequest", "container_id"), of("ContainerStatusRequest", "container_id", "verbose")), tests: seen("test/e2e.TestCrictlContainer")},
		{fields: of("StopContainerRequest", "container_id", "timeout"), tests: seen(appFields+"/stop signal", "container.TestRigStopKillsAfterTheGracePeriod")},
		{fields: of("ContainerStatsRequest", "container_id"), tests: seen("test/e2e.TestStatsAreTrue")},
		{fields: of("ReopenContainerLogRequest", "container_id"), elsewhere: "a kubelet's rotation is in test/kubelet"},
		{fields: of("UpdateContainerResourcesRequest", "container_id", "linux"), tests: seen("container.TestRigUpdate", "container.TestRigUpdateOfTheOOMScore")},
		{fields: of("ExecSyncRequest", "container_id", "cmd", "timeout"), tests: seen("container.TestRigExecSync", "container.TestRigExecSyncTimeoutKillsTheTree")},
		{fields: of("ExecRequest", "container_id", "cmd", "tty", "stdin", "stdout", "stderr"), tests: seen("test/e2e.TestExecStreams", "test/e2e.TestExecOnTerminal")},
		{fields: of("AttachRequest", "container_id", "tty", "stdin", "stdout", "stderr"), tests: seen("test/e2e.TestAttachAgain", "test/e2e.TestAttachOnTerminal")},
		{fields: slices.Concat(of("ListPodSandboxRequest", "filter"), of("StreamPodSandboxesRequest", "filter"), of("ListPodSandboxStatsRequest", "filter"),
			of("StreamPodSandboxStatsRequest", "filter"), of("PodSandboxFilter", "id", "state", "label_selector"), of("PodSandboxStateValue", "state"),
			of("PodSandboxStatsFilter", "id", "label_selector"), of("ListContainersRequest", "filter"), of("StreamContainersRequest", "filter"),
			of("ListContainerStatsRequest", "filter"), of("StreamContainerStatsRequest", "filter"), of("ContainerFilter", "id", "state", "pod_sandbox_id", "label_selector"),
			of("ContainerStateValue", "state"), of("ContainerStatsFilter", "id", "pod_sandbox_id", "label_selector")), elsewhere: filters},
		{fields: slices.Concat(of("ListImagesRequest", "filter"), of("StreamImagesRequest", "filter"), of("ImageFilter", "image"), of("ImageStatusRequest", "image", "verbose"), of("RemoveImageRequest", "image")), tests: seen("test/e2e.TestCrictlImages")},
		{fields: of("AuthConfig", "username", "password", "server_address"), tests: seen("image.TestRigPullWithCredentials")},
		{fields: of("AuthConfig", "auth", "identity_token", "registry_token"), elsewhere: "image's tests of credentials show what the engine gets"},
		{fields: of("StatusRequest", "verbose"), tests: seen("test/e2e.TestCrictlVersionAndInfo")},
		{fields: of("NetworkConfig", "pod_cidr"), elsewhere: "it changes nothing on the node; server's tests show it in a verbose Status"},
		{fields: slices.Concat(of("CheckpointContainerRequest", "container_id", "location", "timeout"), of("CheckpointPodRequest", "pod_sandbox_id", "output_path", "container_ids"),
			of("RestorePodRequest", "checkpoint_path", "config", "runtime_handler", "container_configs")),
			elsewhere: "CRIU does not run on the rig's kernel: the tests of container and sandbox have an engine in " +
				"memory, the tests of docker recorded answers"},
	}
}

// TestEveryImplementedFieldIsSeen fails for a field without a test that looks at it, and for a test that is not there.
func TestEveryImplementedFieldIsSeen(t *testing.T) {
	times := map[string]int{}
	for _, truth := range truths() {
		if (len(truth.tests) == 0) == (truth.elsewhere == "") {
			t.Errorf("%v: give tests, or the reason why there are none", truth.fields)
		}
		for _, field := range truth.fields {
			times[field]++
			if row, ok := rowOf(field); !ok || row.is != implemented {
				t.Errorf("%s is not implemented", field)
			}
		}
		for _, test := range truth.tests {
			if err := exists(test); err != nil {
				t.Errorf("%v: %v", truth.fields, err)
			}
		}
	}
	counted := 0
	for _, row := range table() {
		for _, field := range row.fields {
			if row.is == implemented {
				counted++
			}
			if row.is == implemented && times[field] != 1 {
				t.Errorf("%s is seen %d times, want one truth", field, times[field])
			}
		}
	}
	t.Logf("%d implemented fields", counted)
}

// exists looks for a test, and for the name of its part, in the sources of its directory.
func exists(test string) error {
	dir, name, _ := strings.Cut(test, ".")
	name, part, _ := strings.Cut(name, "/")
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		return err
	}
	hasTest, hasPart := false, part == ""
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		hasTest = hasTest || strings.Contains(string(content), "func "+name+"(t *testing.T)")
		hasPart = hasPart || strings.Contains(string(content), `"`+part+`"`)
	}
	if !hasTest || !hasPart {
		return fmt.Errorf("there is no test %s", test)
	}
	return nil
}
