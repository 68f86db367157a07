//lint:file-ignore SA1019 older kubelets set the deprecated fields only

package translate

import (
	"errors"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// sandboxRefusals are pods that are wrong in one field each.
var sandboxRefusals = []struct {
	name  string
	class string
	field string
	mod   func(in *SandboxInput, c *runtimeapi.PodSandboxConfig)
}{
	{"no config", "invalid", "config", func(in *SandboxInput, _ *runtimeapi.PodSandboxConfig) { in.Config = nil }},
	{"empty config", "invalid", "config.metadata", func(in *SandboxInput, _ *runtimeapi.PodSandboxConfig) { in.Config = &runtimeapi.PodSandboxConfig{} }},
	{"no metadata", "invalid", "config.metadata", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.Metadata = nil }},
	{"no image", "invalid", "image", func(in *SandboxInput, _ *runtimeapi.PodSandboxConfig) { in.Image = "" }},
	{"unknown runtime", "invalid", "runtime_handler", func(in *SandboxInput, _ *runtimeapi.PodSandboxConfig) { in.RuntimeHandler = "kata" }},
	{"a target of its namespaces", "invalid", "config.linux.security_context.namespace_options.target_id", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		c.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{TargetId: "abc"}
	}},
	{"overhead that is none", "invalid", "config.linux.overhead.memory_limit_in_bytes", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		c.Linux.Overhead = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: -1}
	}},
	{"resources that are none", "invalid", "config.linux.resources.cpu_period", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		c.Linux.Resources = &runtimeapi.LinuxContainerResources{CpuPeriod: 1}
	}},
	{"relative log directory", "invalid", "config.log_directory", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.LogDirectory = "var/log" }},
	{"log directory with a line break", "invalid", "config.log_directory", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.LogDirectory = "/var\n" }},
	{"long log directory", "invalid", "config.log_directory", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		c.LogDirectory = "/" + strings.Repeat("x", maxPath)
	}},

	{"long host name", "invalid", "config.hostname", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		c.Hostname = strings.Repeat("a.", 32) + "a"
	}},
	{"long label in the host name", "invalid", "config.hostname", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		c.Hostname = strings.Repeat("a", 64)
	}},
	{"host name with a space", "invalid", "config.hostname", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.Hostname = "a b" }},
	{"host name with a line break", "invalid", "config.hostname", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.Hostname = "a\n1.2.3.4 b" }},
	{"host name that begins with a hyphen", "invalid", "config.hostname", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.Hostname = "-a" }},
	{"host name with an empty label", "invalid", "config.hostname", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.Hostname = "a..b" }},
	{"bad host name on the host's network", "invalid", "config.hostname", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		c.Hostname, podNamespaces(c).Network = "a b", runtimeapi.NamespaceMode_NODE
	}},

	{"DNS server by name", "invalid", "config.dns_config.servers[1]", dns(&runtimeapi.DNSConfig{Servers: []string{"10.0.0.10", "dns.example"}})},
	{"DNS search with a space", "invalid", "config.dns_config.searches[0]", dns(&runtimeapi.DNSConfig{Searches: []string{"a b"}})},
	{"empty DNS search", "invalid", "config.dns_config.searches[0]", dns(&runtimeapi.DNSConfig{Searches: []string{""}})},
	{"DNS option with a line break", "invalid", "config.dns_config.options[0]", dns(&runtimeapi.DNSConfig{Options: []string{"ndots:5\nnameserver 6.6.6.6"}})},

	{"no port mapping", "invalid", "config.port_mappings[1]", ports(&runtimeapi.PortMapping{ContainerPort: 80}, nil)},
	{"negative container port", "invalid", "config.port_mappings[0].container_port", ports(&runtimeapi.PortMapping{ContainerPort: -1})},
	{"large container port", "invalid", "config.port_mappings[0].container_port", ports(&runtimeapi.PortMapping{ContainerPort: 65536})},
	{"negative host port", "invalid", "config.port_mappings[0].host_port", ports(&runtimeapi.PortMapping{ContainerPort: 80, HostPort: -1})},
	{"large host port", "invalid", "config.port_mappings[0].host_port", ports(&runtimeapi.PortMapping{ContainerPort: 80, HostPort: 65536})},
	{"host port to nowhere", "invalid", "config.port_mappings[0].container_port", ports(&runtimeapi.PortMapping{HostPort: 80})},
	{"host IP that is none", "invalid", "config.port_mappings[0].host_ip", ports(&runtimeapi.PortMapping{ContainerPort: 80, HostPort: 80, HostIp: "localhost"})},
	{"unknown protocol", "invalid", "config.port_mappings[0].protocol", ports(&runtimeapi.PortMapping{ContainerPort: 80, Protocol: 3})},

	{"sysctl of the node", "invalid", "config.linux.sysctls", sysctl("vm.overcommit_memory", "1")},
	{"kernel sysctl that is not of the IPC namespace", "invalid", "config.linux.sysctls", sysctl("kernel.panic", "1")},
	{"sysctl that climbs", "invalid", "config.linux.sysctls", sysctl("net.../../kernel.panic", "1")},
	{"sysctl with an empty part", "invalid", "config.linux.sysctls", sysctl("net..ipv4", "1")},
	{"empty sysctl", "invalid", "config.linux.sysctls", sysctl("", "1")},
	{"sysctl with a line break", "invalid", "config.linux.sysctls", sysctl("net.core.somaxconn", "1\n2")},
	{"network sysctl on the host's network", "invalid", "config.linux.sysctls", func(in *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		sysctl("net.core.somaxconn", "1")(in, c)
		podNamespaces(c).Network = runtimeapi.NamespaceMode_NODE
	}},
	{"shared memory sysctl with the host's IPC", "invalid", "config.linux.sysctls", func(in *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		sysctl("kernel.shmmax", "1")(in, c)
		podNamespaces(c).Ipc = runtimeapi.NamespaceMode_NODE
	}},
	{"semaphore sysctl with the host's IPC", "invalid", "config.linux.sysctls", func(in *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		sysctl("kernel.sem", "1 2 3 4")(in, c)
		podNamespaces(c).Ipc = runtimeapi.NamespaceMode_NODE
	}},

	{"cgroup parent that climbs", "invalid", "config.linux.cgroup_parent", func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.Linux.CgroupParent = "/kubepods/../.." }},
	{"cgroup parent for the other driver", "invalid", "config.linux.cgroup_parent", func(in *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		in.Features, c.Linux.CgroupParent = newEngine(), "/kubepods/burstable/pod1"
	}},
	{"cgroup parent without a name", "invalid", "config.linux.cgroup_parent", func(in *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		in.Features, c.Linux.CgroupParent = newEngine(), "/.slice"
	}},

	{"network per container", "invalid", "config.linux.security_context.namespace_options.network", podNS(&runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_CONTAINER})},
	{"unknown network mode", "invalid", "config.linux.security_context.namespace_options.network", podNS(&runtimeapi.NamespaceOption{Network: 9})},
	{"PID namespace of a target", "invalid", "config.linux.security_context.namespace_options.pid", podNS(&runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET, TargetId: "x"})},
	{"IPC namespace of a target", "invalid", "config.linux.security_context.namespace_options.ipc", podNS(&runtimeapi.NamespaceOption{Ipc: runtimeapi.NamespaceMode_TARGET})},
	{"user namespace of the pod", "unsupported", "config.linux.security_context.namespace_options.userns_options", podNS(&runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{}})},
	{"user namespace per container", "invalid", "config.linux.security_context.namespace_options.userns_options.mode", podNS(&runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_CONTAINER}})},
	{"user namespace of a target", "invalid", "config.linux.security_context.namespace_options.userns_options.mode", podNS(&runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_TARGET}})},
	{"mappings of the node's user namespace", "invalid", "config.linux.security_context.namespace_options.userns_options", podNS(&runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{
		Mode: runtimeapi.NamespaceMode_NODE, Uids: []*runtimeapi.IDMapping{{Length: 1}},
	}})},

	{"group without user", "invalid", "config.linux.security_context.run_as_group", podSC(&runtimeapi.LinuxSandboxSecurityContext{RunAsGroup: int64Value(1)})},
	{"negative user", "invalid", "config.linux.security_context.run_as_user", podSC(&runtimeapi.LinuxSandboxSecurityContext{RunAsUser: int64Value(-1)})},
	{"large supplemental group", "invalid", "config.linux.security_context.supplemental_groups[1]", podSC(&runtimeapi.LinuxSandboxSecurityContext{SupplementalGroups: []int64{1, 1 << 31}})},
	{"strict groups", "unsupported", "config.linux.security_context.supplemental_groups_policy", podSC(&runtimeapi.LinuxSandboxSecurityContext{SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict})},
	{"SELinux level with a space", "invalid", "config.linux.security_context.selinux_options.level", podSC(&runtimeapi.LinuxSandboxSecurityContext{SelinuxOptions: &runtimeapi.SELinuxOption{Level: "s0 c1"}})},
	{"AppArmor profile without AppArmor", "unsupported", "config.linux.security_context.apparmor", podSC(&runtimeapi.LinuxSandboxSecurityContext{Apparmor: localhost("p")})},
	{"seccomp profile without a reader", "unsupported", "config.linux.security_context.seccomp", podSC(&runtimeapi.LinuxSandboxSecurityContext{Seccomp: localhost("/p.json")})},
}

func dns(config *runtimeapi.DNSConfig) func(*SandboxInput, *runtimeapi.PodSandboxConfig) {
	return func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.DnsConfig = config }
}

func ports(mappings ...*runtimeapi.PortMapping) func(*SandboxInput, *runtimeapi.PodSandboxConfig) {
	return func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.PortMappings = mappings }
}

func sysctl(name, value string) func(*SandboxInput, *runtimeapi.PodSandboxConfig) {
	return func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) {
		c.Linux.Sysctls = map[string]string{name: value}
	}
}

func podNS(options *runtimeapi.NamespaceOption) func(*SandboxInput, *runtimeapi.PodSandboxConfig) {
	return podSC(&runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: options})
}

func podSC(sc *runtimeapi.LinuxSandboxSecurityContext) func(*SandboxInput, *runtimeapi.PodSandboxConfig) {
	return func(_ *SandboxInput, c *runtimeapi.PodSandboxConfig) { c.Linux.SecurityContext = sc }
}

func localhost(ref string) *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: ref}
}

func TestSandboxRefusals(t *testing.T) {
	for _, tc := range sandboxRefusals {
		t.Run(tc.name, func(t *testing.T) {
			in := sandboxInput()
			tc.mod(&in, in.Config)
			spec, err := Sandbox(in)
			wantRefusal(t, err, tc.class, tc.field)
			if spec.Config != nil || spec.Host != nil || spec.Name != "" {
				t.Errorf("the refused pod has a spec: %+v", spec)
			}
		})
	}
}

// containerRefusals are containers that are wrong in one field each.
var containerRefusals = []struct {
	name  string
	class string
	field string
	mod   func(in *ContainerInput, c *runtimeapi.ContainerConfig)
}{
	{"no config", "invalid", "config", func(in *ContainerInput, _ *runtimeapi.ContainerConfig) { in.Config = nil }},
	{"no metadata", "invalid", "config.metadata", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Metadata = nil }},
	{"no name", "invalid", "config.metadata.name", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Metadata.Name = "" }},
	{"long name", "invalid", "config.metadata.name", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) {
		c.Metadata.Name = strings.Repeat("x", maxNamePart+1)
	}},
	{"no image", "invalid", "config.image", func(in *ContainerInput, _ *runtimeapi.ContainerConfig) { in.ImageID = "" }},
	{"no sandbox", "invalid", "pod_sandbox_id", func(in *ContainerInput, _ *runtimeapi.ContainerConfig) { in.Sandbox.ID = "" }},
	{"sandbox id that is none", "invalid", "pod_sandbox_id", func(in *ContainerInput, _ *runtimeapi.ContainerConfig) { in.Sandbox.ID = "../x" }},
	{"no pod", "invalid", "sandbox_config", func(in *ContainerInput, _ *runtimeapi.ContainerConfig) { in.Sandbox.Config = nil }},
	{"no pod metadata", "invalid", "sandbox_config.metadata", func(in *ContainerInput, _ *runtimeapi.ContainerConfig) {
		in.Sandbox.Config = &runtimeapi.PodSandboxConfig{}
	}},
	{"pod with another driver's cgroup parent", "invalid", "sandbox_config.linux.cgroup_parent", func(in *ContainerInput, _ *runtimeapi.ContainerConfig) {
		in.Features, in.Sandbox.Config.Linux.CgroupParent = newEngine(), "/kubepods"
	}},
	{"runtime that is gone", "invalid", "sandbox.runtime_handler", func(in *ContainerInput, _ *runtimeapi.ContainerConfig) { in.Sandbox.RuntimeHandler = "gone" }},
	{"labels that are no text", "invalid", "config.labels", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Labels = map[string]string{"\xff": ""} }},
	{"annotations that are no text", "invalid", "config.annotations", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Annotations = map[string]string{"\xff": ""} }},

	{"absolute log path", "invalid", "config.log_path", logPathOf("/var/log/app.log")},
	{"log path that climbs", "invalid", "config.log_path", logPathOf("../app.log")},
	{"log path that climbs later", "invalid", "config.log_path", logPathOf("a/../../app.log")},
	{"log path that is the directory", "invalid", "config.log_path", logPathOf(".")},
	{"log path with a line break", "invalid", "config.log_path", logPathOf("a\n")},
	{"long log path", "invalid", "config.log_path", logPathOf(strings.Repeat("x", maxPath))},
	{"bad log path without a log directory", "invalid", "config.log_path", func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		in.Sandbox.Config.LogDirectory, c.LogPath = "", "/etc/passwd"
	}},

	{"empty program", "invalid", "config.command[0]", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Command = []string{"", "a"} }},
	{"NUL in the command", "invalid", "config.command[1]", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Command = []string{"a", "\x00"} }},
	{"argument that is no text", "invalid", "config.args[0]", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Args = []string{"\xff"} }},
	{"relative working directory", "invalid", "config.working_dir", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.WorkingDir = "tmp" }},
	{"variable without a name", "invalid", "config.envs[1].key", envs(&runtimeapi.KeyValue{Key: "a"}, nil)},
	{"variable with an equals sign", "invalid", "config.envs[0].key", envs(&runtimeapi.KeyValue{Key: "a=b"})},
	{"variable with a NUL", "invalid", "config.envs[0].value", envs(&runtimeapi.KeyValue{Key: "a", Value: []byte{0}})},
	{"variable that is no text", "invalid", "config.envs[0].value", envs(&runtimeapi.KeyValue{Key: "a", Value: []byte{0xff}})},
	{"unknown stop signal", "invalid", "config.stop_signal", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.StopSignal = 99 }},

	{"no mount", "invalid", "config.mounts[1]", mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a"}, nil)},
	{"relative host path", "invalid", "config.mounts[0].host_path", mountsOf(&runtimeapi.Mount{HostPath: "a", ContainerPath: "/a"})},
	{"no host path", "invalid", "config.mounts[0].host_path", mountsOf(&runtimeapi.Mount{ContainerPath: "/a"})},
	{"host path with a NUL", "invalid", "config.mounts[0].host_path", mountsOf(&runtimeapi.Mount{HostPath: "/a\x00", ContainerPath: "/a"})},
	{"no container path", "invalid", "config.mounts[0].container_path", mountsOf(&runtimeapi.Mount{HostPath: "/a"})},
	{"root as container path", "invalid", "config.mounts[0].container_path", mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a/.."})},
	{"mounted twice", "invalid", "config.mounts[1].container_path", mountsOf(
		&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/x"}, &runtimeapi.Mount{HostPath: "/b", ContainerPath: "x/"})},
	{"unknown propagation", "invalid", "config.mounts[0].propagation", mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a", Propagation: 7})},
	{"recursive read-only on an old engine", "unsupported", "config.mounts[0].recursive_read_only", mountsOf(&runtimeapi.Mount{
		HostPath: "/a", ContainerPath: "/a", Readonly: true, RecursiveReadOnly: true,
	})},
	{"recursive read-only on a runtime without", "unsupported", "config.mounts[0].recursive_read_only", func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		in.Features, in.Sandbox.RuntimeHandler = newEngine(), "kata"
		c.Mounts = []*runtimeapi.Mount{{HostPath: "/a", ContainerPath: "/a", Readonly: true, RecursiveReadOnly: true}}
	}},
	{"recursive read-only of a writable mount", "invalid", "config.mounts[0].recursive_read_only", mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a", RecursiveReadOnly: true})},
	{"recursive read-only with propagation", "invalid", "config.mounts[0].recursive_read_only", mountsOf(&runtimeapi.Mount{
		HostPath: "/a", ContainerPath: "/a", Readonly: true, RecursiveReadOnly: true, Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
	})},
	{"image volume", "unsupported", "config.mounts[0].image", mountsOf(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"}})},
	{"image volume with a host path", "invalid", "config.mounts[0].image", mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"}})},
	{"image volume without a name", "invalid", "config.mounts[0].image.image", mountsOf(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{}})},
	{"image volume on the root", "invalid", "config.mounts[0].container_path", mountsOf(&runtimeapi.Mount{ContainerPath: "/", Image: &runtimeapi.ImageSpec{Image: "x"}})},
	{"image volume with propagation", "invalid", "config.mounts[0].propagation", mountsOf(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"}, Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL})},
	{"part above the image", "invalid", "config.mounts[0].image_sub_path", mountsOf(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"}, ImageSubPath: "a/../../b"})},
	{"absolute part of an image", "invalid", "config.mounts[0].image_sub_path", mountsOf(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x"}, ImageSubPath: "/etc"})},
	{"image directory without an image", "invalid", "config.mounts[0].image_sub_path", mountsOf(&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/a", ImageSubPath: "x"})},
	{"relabelling a path with a colon", "unsupported", "config.mounts[0].selinux_relabel", func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		in.Features = newEngine()
		c.Linux.SecurityContext.SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0"}
		c.Mounts = []*runtimeapi.Mount{{HostPath: "/a:b", ContainerPath: "/a", SelinuxRelabel: true}}
	}},
	{"relabelling a recursively read-only mount", "unsupported", "config.mounts[0].selinux_relabel", func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		in.Features = newEngine()
		c.Linux.SecurityContext.SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0"}
		c.Mounts = []*runtimeapi.Mount{{HostPath: "/a", ContainerPath: "/a", SelinuxRelabel: true, Readonly: true, RecursiveReadOnly: true}}
	}},

	{"no device", "invalid", "config.devices[0]", devicesOf(nil)},
	{"relative device", "invalid", "config.devices[0].host_path", devicesOf(&runtimeapi.Device{HostPath: "null", ContainerPath: "/dev/null", Permissions: "r"})},
	{"relative device in the container", "invalid", "config.devices[0].container_path", devicesOf(&runtimeapi.Device{HostPath: "/dev/null", ContainerPath: "null", Permissions: "r"})},
	{"device without permissions", "invalid", "config.devices[0].permissions", devicesOf(&runtimeapi.Device{HostPath: "/dev/null", ContainerPath: "/dev/null"})},
	{"device with unknown permissions", "invalid", "config.devices[0].permissions", devicesOf(&runtimeapi.Device{HostPath: "/dev/null", ContainerPath: "/dev/null", Permissions: "rx"})},
	{"CDI device on an old engine", "unsupported", "config.CDI_devices[0].name", withCDI("vendor.com/gpu=0")},
	{"CDI device on an engine without CDI", "unsupported", "config.CDI_devices[0].name", func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		withCDI("vendor.com/gpu=0")(in, c)
		in.Features = newEngine()
		in.Features.CDI = false
	}},
	{"CDI device by annotation on an old engine", "unsupported", "config.annotations[cdi.k8s.io/a_b]", cdiAnnotations("a_b", "vendor.com/gpu=0")},
	{"CDI device by annotation without a class", "invalid", "config.annotations[cdi.k8s.io/a_b]", cdiAnnotations("a_b", "vendor.com/gpu=0,gpu=1")},
	{"unknown runtime for the image", "invalid", "config.image.runtime_handler", func(_ *ContainerInput, c *runtimeapi.ContainerConfig) {
		c.Image = &runtimeapi.ImageSpec{Image: "x", RuntimeHandler: "kata"}
	}},
	{"unknown runtime for an image volume", "invalid", "config.mounts[0].image.runtime_handler",
		mountsOf(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{Image: "x", RuntimeHandler: "kata"}})},
	{"the node's network in a pod that has its own", "invalid", "config.linux.security_context.namespace_options.network",
		containerNS(&runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE})},
	{"a target without the mode", "invalid", "config.linux.security_context.namespace_options.target_id",
		containerNS(&runtimeapi.NamespaceOption{TargetId: "abc"})},
	{"swap without memory", "invalid", "config.linux.resources.memory_swap_limit_in_bytes",
		limits(&runtimeapi.LinuxContainerResources{MemorySwapLimitInBytes: 1 << 20})},
	{"CDI device without a class", "invalid", "config.CDI_devices[0].name", withCDI("gpu=0")},
	{"CDI device without a name", "invalid", "config.CDI_devices[1].name", func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		withCDI("vendor.com/gpu=0", "vendor.com/gpu")(in, c)
		in.Features = newEngine()
	}},

	{"network per container", "invalid", "config.linux.security_context.namespace_options.network", containerNS(&runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_CONTAINER})},
	{"network of a target", "invalid", "config.linux.security_context.namespace_options.network", containerNS(&runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_TARGET})},
	{"unknown PID mode", "invalid", "config.linux.security_context.namespace_options.pid", containerNS(&runtimeapi.NamespaceOption{Pid: 9})},
	{"no target", "invalid", "config.linux.security_context.namespace_options.target_id", containerNS(&runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET})},
	{"target that is no id", "invalid", "config.linux.security_context.namespace_options.target_id", containerNS(&runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET, TargetId: "a:b"})},
	{"IPC of a target", "invalid", "config.linux.security_context.namespace_options.ipc", containerNS(&runtimeapi.NamespaceOption{Ipc: runtimeapi.NamespaceMode_TARGET})},
	{"user namespace of the pod", "unsupported", "config.linux.security_context.namespace_options.userns_options", containerNS(&runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{}})},

	{"group without user", "invalid", "config.linux.security_context.run_as_group", containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsGroup: int64Value(1)})},
	{"user by number and name", "invalid", "config.linux.security_context.run_as_username", containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(1), RunAsUsername: "www"})},
	{"user name with a group", "invalid", "config.linux.security_context.run_as_username", containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "www:root"})},
	{"user name with a line break", "invalid", "config.linux.security_context.run_as_username", containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "www\n"})},
	{"large user", "invalid", "config.linux.security_context.run_as_user", containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(1 << 31)})},
	{"negative group", "invalid", "config.linux.security_context.run_as_group", containerSC(&runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(1), RunAsGroup: int64Value(-1)})},
	{"negative supplemental group", "invalid", "config.linux.security_context.supplemental_groups[0]", containerSC(&runtimeapi.LinuxContainerSecurityContext{SupplementalGroups: []int64{-1}})},
	{"strict groups", "unsupported", "config.linux.security_context.supplemental_groups_policy", containerSC(&runtimeapi.LinuxContainerSecurityContext{SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict})},
	{"unknown groups policy", "invalid", "config.linux.security_context.supplemental_groups_policy", containerSC(&runtimeapi.LinuxContainerSecurityContext{SupplementalGroupsPolicy: 9})},

	{"privileged in an ordinary pod", "invalid", "config.linux.security_context.privileged", containerSC(&runtimeapi.LinuxContainerSecurityContext{Privileged: true})},
	{"empty capability to add", "invalid", "config.linux.security_context.capabilities.add_capabilities[0]", containerSC(&runtimeapi.LinuxContainerSecurityContext{Capabilities: &runtimeapi.Capability{AddCapabilities: []string{""}}})},
	{"odd capability to drop", "invalid", "config.linux.security_context.capabilities.drop_capabilities[1]", containerSC(&runtimeapi.LinuxContainerSecurityContext{Capabilities: &runtimeapi.Capability{DropCapabilities: []string{"ALL", "a b"}}})},
	{"relative masked path", "invalid", "config.linux.security_context.masked_paths[0]", containerSC(&runtimeapi.LinuxContainerSecurityContext{MaskedPaths: []string{"proc"}})},
	{"relative read-only path", "invalid", "config.linux.security_context.readonly_paths[0]", containerSC(&runtimeapi.LinuxContainerSecurityContext{ReadonlyPaths: []string{""}})},
	{"SELinux user with a line break", "invalid", "config.linux.security_context.selinux_options.user", containerSC(&runtimeapi.LinuxContainerSecurityContext{SelinuxOptions: &runtimeapi.SELinuxOption{User: "a\nb"}})},

	{"AppArmor profile without AppArmor", "unsupported", "config.linux.security_context.apparmor", containerSC(&runtimeapi.LinuxContainerSecurityContext{Apparmor: localhost("p"), ApparmorProfile: "unconfined"})},
	{"older AppArmor field without AppArmor", "unsupported", "config.linux.security_context.apparmor_profile", containerSC(&runtimeapi.LinuxContainerSecurityContext{ApparmorProfile: "localhost/p"})},
	{"AppArmor profile without a name", "invalid", "config.linux.security_context.apparmor.localhost_ref", containerSC(&runtimeapi.LinuxContainerSecurityContext{Apparmor: localhost("")})},
	{"AppArmor profile name where none goes", "invalid", "config.linux.security_context.apparmor.localhost_ref", containerSC(&runtimeapi.LinuxContainerSecurityContext{Apparmor: &runtimeapi.SecurityProfile{LocalhostRef: "p"}})},
	{"unknown AppArmor profile type", "invalid", "config.linux.security_context.apparmor.profile_type", containerSC(&runtimeapi.LinuxContainerSecurityContext{Apparmor: &runtimeapi.SecurityProfile{ProfileType: 9}})},
	{"odd value in the older AppArmor field", "invalid", "config.linux.security_context.apparmor_profile", containerSC(&runtimeapi.LinuxContainerSecurityContext{ApparmorProfile: "localhost/"})},
	{"AppArmor profile with a line break", "invalid", "config.linux.security_context.apparmor", func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		in.Features, c.Linux.SecurityContext.Apparmor = newEngine(), localhost("a\nb")
	}},
	{"relative seccomp profile", "invalid", "config.linux.security_context.seccomp", containerSC(&runtimeapi.LinuxContainerSecurityContext{Seccomp: localhost("p.json")})},
	{"seccomp profile without a reader", "unsupported", "config.linux.security_context.seccomp", containerSC(&runtimeapi.LinuxContainerSecurityContext{Seccomp: localhost("/p.json")})},
	{"odd value in the older seccomp field", "invalid", "config.linux.security_context.seccomp_profile_path", containerSC(&runtimeapi.LinuxContainerSecurityContext{SeccompProfilePath: "/p.json"})},
	{"seccomp profile without seccomp", "unsupported", "config.linux.security_context.seccomp", func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		in.Features.Seccomp, c.Linux.SecurityContext.Seccomp = false, localhost("/p.json")
	}},
	{"seccomp profile that cannot be read", "invalid", "config.linux.security_context.seccomp", seccompContent("", errors.New("no such file"))},
	{"seccomp profile that is no JSON", "invalid", "config.linux.security_context.seccomp", seccompContent("{", nil)},
	{"empty seccomp profile", "invalid", "config.linux.security_context.seccomp", seccompContent("", nil)},
	{"seccomp profile that says nothing", "invalid", "config.linux.security_context.seccomp", seccompContent("{}", nil)},
	{"seccomp profile without default action", "invalid", "config.linux.security_context.seccomp", seccompContent(`{"syscalls":[]}`, nil)},

	{"short CPU period", "invalid", "config.linux.resources.cpu_period", limits(&runtimeapi.LinuxContainerResources{CpuPeriod: 999})},
	{"long CPU period", "invalid", "config.linux.resources.cpu_period", limits(&runtimeapi.LinuxContainerResources{CpuPeriod: 1_000_001})},
	{"small CPU quota", "invalid", "config.linux.resources.cpu_quota", limits(&runtimeapi.LinuxContainerResources{CpuQuota: 999})},
	{"negative CPU quota", "invalid", "config.linux.resources.cpu_quota", limits(&runtimeapi.LinuxContainerResources{CpuQuota: -2})},
	{"negative CPU shares", "invalid", "config.linux.resources.cpu_shares", limits(&runtimeapi.LinuxContainerResources{CpuShares: -1})},
	{"negative memory", "invalid", "config.linux.resources.memory_limit_in_bytes", limits(&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: -1})},
	{"less swap than memory", "invalid", "config.linux.resources.memory_swap_limit_in_bytes", limits(&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 2 << 20, MemorySwapLimitInBytes: 1 << 20})},
	{"negative swap", "invalid", "config.linux.resources.memory_swap_limit_in_bytes", limits(&runtimeapi.LinuxContainerResources{MemorySwapLimitInBytes: -2})},
	{"swap that is no number", "invalid", "config.linux.resources.unified", limits(&runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 20, Unified: map[string]string{"memory.swap.max": "lots"}})},
	{"unified key that is a path", "invalid", "config.linux.resources.unified", limits(&runtimeapi.LinuxContainerResources{Unified: map[string]string{"../memory.max": "0"}})},
	{"huge page size that is a path", "invalid", "config.linux.resources.hugepage_limits[0].page_size", limits(&runtimeapi.LinuxContainerResources{HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB/"}}})},
	{"no huge page size", "invalid", "config.linux.resources.hugepage_limits[0].page_size", limits(&runtimeapi.LinuxContainerResources{HugepageLimits: []*runtimeapi.HugepageLimit{nil}})},
	{"CPU set that is no list", "invalid", "config.linux.resources.cpuset_cpus", limits(&runtimeapi.LinuxContainerResources{CpusetCpus: "a"})},
	{"CPU set with a range backwards", "invalid", "config.linux.resources.cpuset_cpus", limits(&runtimeapi.LinuxContainerResources{CpusetCpus: "3-1"})},
	{"memory nodes that are no list", "invalid", "config.linux.resources.cpuset_mems", limits(&runtimeapi.LinuxContainerResources{CpusetMems: "0,"})},
	{"low OOM score", "invalid", "config.linux.resources.oom_score_adj", limits(&runtimeapi.LinuxContainerResources{OomScoreAdj: -1001})},
	{"high OOM score", "invalid", "config.linux.resources.oom_score_adj", limits(&runtimeapi.LinuxContainerResources{OomScoreAdj: 1001})},
}

func logPathOf(name string) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.LogPath = name }
}

func envs(list ...*runtimeapi.KeyValue) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Envs = list }
}

func mountsOf(list ...*runtimeapi.Mount) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Mounts = list }
}

func devicesOf(list ...*runtimeapi.Device) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Devices = list }
}

func withCDI(names ...string) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) {
		for _, name := range names {
			c.CDIDevices = append(c.CDIDevices, &runtimeapi.CDIDevice{Name: name})
		}
	}
}

func cdiAnnotations(key, names string) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) {
		c.Annotations = map[string]string{cdiAnnotation + key: names}
	}
}

func containerNS(options *runtimeapi.NamespaceOption) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return containerSC(&runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: options})
}

func containerSC(sc *runtimeapi.LinuxContainerSecurityContext) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext = sc }
}

func limits(r *runtimeapi.LinuxContainerResources) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(_ *ContainerInput, c *runtimeapi.ContainerConfig) { c.Linux.Resources = r }
}

func seccompContent(content string, err error) func(*ContainerInput, *runtimeapi.ContainerConfig) {
	return func(in *ContainerInput, c *runtimeapi.ContainerConfig) {
		in.ReadProfile = func(string) ([]byte, error) { return []byte(content), err }
		c.Linux.SecurityContext.Seccomp = localhost("/p.json")
	}
}

func TestContainerRefusals(t *testing.T) {
	for _, tc := range containerRefusals {
		t.Run(tc.name, func(t *testing.T) {
			in := containerInput()
			tc.mod(&in, in.Config)
			spec, err := Container(in)
			wantRefusal(t, err, tc.class, tc.field)
			if spec.Config != nil || spec.Host != nil || spec.Name != "" {
				t.Errorf("the refused container has a spec: %+v", spec)
			}
		})
	}
}

func TestUpdateRefusals(t *testing.T) {
	_, err := Resources(&runtimeapi.LinuxContainerResources{CpuPeriod: 1}, docker.Features{})
	wantRefusal(t, err, "invalid", "linux.cpu_period")
}
