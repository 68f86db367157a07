package translate

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestSandboxNamespaces(t *testing.T) {
	const node, pod, own = runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_POD,
		runtimeapi.NamespaceMode_CONTAINER
	type modes struct {
		network  container.NetworkMode
		disabled bool
		hostname string
		uts      container.UTSMode
		pid      container.PidMode
		ipc      container.IpcMode
	}
	for _, tc := range []struct {
		name    string
		options *runtimeapi.NamespaceOption
		publish bool
		want    modes
	}{
		{"nothing said", nil, false, modes{network: "none", disabled: true, hostname: "web-0", ipc: "shareable"}},
		{"all the pod's", &runtimeapi.NamespaceOption{Network: pod, Pid: pod, Ipc: pod}, false,
			modes{network: "none", disabled: true, hostname: "web-0", ipc: "shareable"}},
		{"the kubelet's usual", &runtimeapi.NamespaceOption{Pid: own}, false,
			modes{network: "none", disabled: true, hostname: "web-0", ipc: "shareable"}},
		{"IPC per container", &runtimeapi.NamespaceOption{Ipc: own}, false,
			modes{network: "none", disabled: true, hostname: "web-0", ipc: "shareable"}},
		{"Docker's bridge", nil, true, modes{network: "bridge", hostname: "web-0", ipc: "shareable"}},
		{"the node's network", &runtimeapi.NamespaceOption{Network: node}, false,
			modes{network: "host", uts: "host", ipc: "shareable"}},
		{"the node's network beside Docker's bridge", &runtimeapi.NamespaceOption{Network: node}, true,
			modes{network: "host", uts: "host", ipc: "shareable"}},
		{"the node's PIDs", &runtimeapi.NamespaceOption{Pid: node}, false,
			modes{network: "none", disabled: true, hostname: "web-0", pid: "host", ipc: "shareable"}},
		{"the node's IPC", &runtimeapi.NamespaceOption{Ipc: node}, false,
			modes{network: "none", disabled: true, hostname: "web-0", ipc: "host"}},
		{"the node's user namespace", &runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{Mode: node}},
			false, modes{network: "none", disabled: true, hostname: "web-0", ipc: "shareable"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := sandboxInput()
			in.PublishPorts = tc.publish
			in.Config.Linux.SecurityContext.NamespaceOptions = tc.options
			spec := mustSandbox(t, in)
			got := modes{spec.Host.NetworkMode, spec.Config.NetworkDisabled, spec.Config.Hostname, spec.Host.UTSMode,
				spec.Host.PidMode, spec.Host.IpcMode}
			testutil.Assert(t, got == tc.want, "got %+v, want %+v", got, tc.want)
			testutil.Assert(t, spec.Host.UsernsMode == "host", "the user namespace is %q", spec.Host.UsernsMode)
		})
	}
}

func TestSandboxWithoutLinuxPart(t *testing.T) {
	in := sandboxInput()
	in.Config.Linux = nil
	spec := mustSandbox(t, in)
	testutil.Assert(t, spec.Host.NetworkMode == "none" && spec.Host.IpcMode == "shareable" &&
		spec.Host.CgroupParent == "/docker", "got %+v", spec.Host)
}

func TestHostname(t *testing.T) {
	for _, tc := range []struct{ given, pod, want string }{
		{"web", "pod", "web"},
		{"Web.example.org", "pod", "Web.example.org"},
		{"with_underscore", "pod", "with_underscore"},
		{strings.Repeat("a", 60) + ".bcd", "pod", strings.Repeat("a", 60) + ".bcd"}, // 64 bytes
		{"", "web-0", "web-0"},
		{"", "My_Pod.x", "My-Pod.x"},
		{"", "a..b", "a--b"},
		{"", "é", "pod"},
		{"", "-.a.-", "a"},
		{"", strings.Repeat("a", 62) + ".b", strings.Repeat("a", 62)},
		{"", strings.Repeat("a", 100), strings.Repeat("a", 63)},
	} {
		in := sandboxInput()
		in.Config.Hostname, in.Config.Metadata.Name = tc.given, tc.pod
		got := mustSandbox(t, in).Config.Hostname
		testutil.Assert(t, got == tc.want && got == Hostname(in.Config),
			"host name %q of the pod %q gives %q, want %q", tc.given, tc.pod, got, tc.want)
	}
	in := sandboxInput()
	in.Config.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	testutil.Equal(t, Hostname(in.Config), "", "on the host's network it")
}

func TestCgroupParent(t *testing.T) {
	const slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6f1c.slice"
	for _, tc := range []struct{ driver, given, want string }{
		{"cgroupfs", "/kubepods/burstable/pod6f1c", "/kubepods/burstable/pod6f1c"},
		{"cgroupfs", "relative", "relative"},
		{"cgroupfs", "", "/docker"},
		{"systemd", slice, "kubepods-burstable-pod6f1c.slice"},
		{"systemd", "system.slice", "system.slice"},
		{"systemd", "", "system.slice"},
		{"none", "", ""},
	} {
		f := oldEngine()
		f.CgroupDriver = tc.driver
		in := sandboxInput()
		in.Features, in.Config.Linux.CgroupParent = f, tc.given
		got := mustSandbox(t, in).Host.CgroupParent
		testutil.Assert(t, got == tc.want,
			"%s makes %q of %q for a sandbox, want %q", tc.driver, got, tc.given, tc.want)
		c := containerInput()
		c.Features, c.Sandbox.Config = f, in.Config
		if got := mustContainer(t, c).Host.CgroupParent; got != tc.want {
			t.Errorf("%s makes %q of %q for a container, want %q", tc.driver, got, tc.given, tc.want)
		}
	}
}

func TestCgroupNamespace(t *testing.T) {
	for _, tc := range []struct {
		version    int
		privileged bool
		want       container.CgroupnsMode
	}{
		{1, false, "host"}, {1, true, "host"}, {2, false, "private"}, {2, true, "host"},
	} {
		in := sandboxInput()
		in.Features.CgroupVersion = tc.version
		in.Config.Linux.SecurityContext.Privileged = tc.privileged
		testutil.Equal(t, mustSandbox(t, in).Host.CgroupnsMode, tc.want, "a sandbox with %+v", tc)
		c := containerInput()
		c.Features.CgroupVersion, c.Sandbox.Config = tc.version, in.Config
		c.Config.Linux.SecurityContext.Privileged = tc.privileged
		testutil.Equal(t, mustContainer(t, c).Host.CgroupnsMode, tc.want, "a container with %+v", tc)
	}
}

func TestSysctls(t *testing.T) {
	in := sandboxInput()
	in.Config.Linux.Sysctls = map[string]string{
		"net.core.somaxconn":               "1024",
		"net.ipv4.conf.eth0/100.rp_filter": "0",
		"net.ipv4.tcp_rmem":                "4096\t87380\t6291456",
		"kernel.shm_rmid_forced":           "1",
		"kernel.msgmax":                    "65536",
		"kernel.sem":                       "250 32000 32 128",
		"fs.mqueue.msg_max":                "100",
	}
	ofInterface := maps.Clone(in.Config.Linux.Sysctls)
	general := maps.Clone(ofInterface)
	delete(general, "net.ipv4.conf.eth0/100.rp_filter")
	maps.DeleteFunc(ofInterface, func(name, _ string) bool { return general[name] != "" })
	for _, in.PublishPorts = range []bool{false, true} {
		got := mustSandbox(t, in).Host.Sysctls
		testutil.Assert(t, maps.Equal(got, general), "got %v", got)
	}
	if got := InterfaceSysctls(in.Config); !maps.Equal(got, ofInterface) {
		t.Errorf("interfaces have %v", got)
	}
}

func TestInterfaceSysctls(t *testing.T) {
	for name, want := range map[string]bool{
		"net.ipv4.conf.eth0.forwarding": true, "net.ipv6.conf.net1/7.accept_ra": true,
		"net.ipv6.neigh.eth0.ucast_solicit": true,
		"net.mpls.conf.eth0.input":          true, "net.ipv4.conf.all.forwarding": false,
		"net.ipv4.conf.default.rp_filter": false,
		"net.ipv6.conf.lo.mtu":            false, "net.ipv4.ip_forward": false, "net.core.somaxconn": false,
		"kernel.sem": false,
	} {
		config := &runtimeapi.PodSandboxConfig{
			Linux: &runtimeapi.LinuxPodSandboxConfig{Sysctls: map[string]string{name: "1"}}}
		testutil.Equal(t, InterfaceSysctls(config)[name] == "1", want, "%s: of an interface", name)
	}
}

func TestPorts(t *testing.T) {
	in := sandboxInput()
	in.Config.PortMappings = []*runtimeapi.PortMapping{
		{ContainerPort: 80, HostPort: 8080},
		{ContainerPort: 80, HostPort: 8081, HostIp: "127.0.0.1"},
		{ContainerPort: 53, HostPort: 53, Protocol: runtimeapi.Protocol_UDP, HostIp: "::1"},
		{ContainerPort: 132, HostPort: 132, Protocol: runtimeapi.Protocol_SCTP},
		{ContainerPort: 9000},
		{},
	}
	if spec := mustSandbox(t, in); len(spec.Host.PortBindings) > 0 || len(spec.Config.ExposedPorts) > 0 {
		t.Errorf("CNI publishes the ports, yet Docker has %v", spec.Host.PortBindings)
	}
	in.PublishPorts = true
	spec := mustSandbox(t, in)
	var got []string
	for port, bindings := range spec.Host.PortBindings {
		_, ok := spec.Config.ExposedPorts[port]
		testutil.Assert(t, ok, "%s is not exposed", port)
		for _, b := range bindings {
			got = append(got, port.String()+" "+b.HostIP.String()+" "+b.HostPort)
		}
	}
	slices.Sort(got)
	want := []string{"132/sctp invalid IP 132", "53/udp ::1 53", "80/tcp 127.0.0.1 8081", "80/tcp invalid IP 8080"}
	testutil.Assert(t, slices.Equal(got, want), "got %q, want %q", got, want)
	in.Features.BridgeAddress = "127.0.0.1" // the default of daemon.json must not apply to pods
	for ipv6, want := range map[bool]string{false: "[0.0.0.0]", true: "[0.0.0.0 ::]"} {
		in.Features.BridgeIPv6 = ipv6
		var got []netip.Addr
		for _, bindings := range mustSandbox(t, in).Host.PortBindings {
			for _, b := range bindings {
				if b.HostPort == "8080" {
					got = append(got, b.HostIP)
				}
			}
		}
		testutil.Equal(t, fmt.Sprint(got), want, "a bridge with IPv6 %t: port 8080 is published at", ipv6)
	}
	in.Config.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	if spec := mustSandbox(t, in); len(spec.Host.PortBindings) > 0 {
		t.Errorf("on the host's network Docker publishes %v", spec.Host.PortBindings)
	}
}

// With CNI the network must be ready when a sandboxed runtime boots its virtual machine.
func TestSandboxedRuntime(t *testing.T) {
	f := newEngine()
	f.SandboxedRuntimes = []string{"kata"}
	asDefault := f
	asDefault.DefaultRuntime = "kata"
	for _, tc := range []struct {
		handler  string
		features docker.Features
		bridge   bool
		refused  bool
	}{
		{"kata", f, false, true}, {"kata", f, true, false}, {"runc", f, false, false}, {"", f, false, false},
		{"", asDefault, false, true}, {"docker", asDefault, false, true}, {"runc", asDefault, false, false},
		{"", asDefault, true, false},
	} {
		in := sandboxInput()
		in.Features, in.RuntimeHandler, in.PublishPorts = tc.features, tc.handler, tc.bridge
		_, err := Sandbox(in)
		testutil.Assert(t, errdefs.IsNotImplemented(err) == tc.refused && (tc.refused || err == nil),
			"%q, bridge %v: %v; want it refused: %v", tc.handler, tc.bridge, err, tc.refused)
		testutil.Assert(t, !tc.refused || strings.Contains(err.Error(), "runtime_handler"),
			"%v does not name the field", err)
		in.Config.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
		_, err = Sandbox(in)
		testutil.Assert(t, err == nil, "%q on the host's network: %v", tc.handler, err)
	}
}

// gVisor makes one sandbox for the pod, and knows the pod by annotations. criadapter-oci is in front of it.
func TestPodSandbox(t *testing.T) {
	f := newEngine()
	f.Runtimes = append(f.Runtimes, "gvisor")
	f.SandboxedRuntimes, f.PodSandboxRuntimes = []string{"gvisor"}, []string{"gvisor"}
	in := sandboxInput()
	in.Features, in.RuntimeHandler = f, "gvisor"
	_, err := Sandbox(in)
	testutil.Assert(t, errdefs.IsNotImplemented(err) && strings.Contains(err.Error(), "criadapter-oci"),
		"without criadapter-oci: %v", err)
	in.Features.OCIRuntime.Name = "criadapter"
	spec := mustSandbox(t, in)
	testutil.Require(t, spec.Note != nil, "there is no note")
	testutil.Equal(t, spec.Note.Annotations[annotationContainerType], "sandbox", "the container type")
	testutil.Assert(t, !spec.Note.InSandbox, "the sandbox container counts as a container in the sandbox")
	_, able, err := WithoutContainer(in)
	testutil.Assert(t, err == nil && !able, "a pod that needs its sandbox container goes without it: %v", err)

	c := containerInput()
	c.Features, c.Sandbox.RuntimeHandler = in.Features, "gvisor"
	got := mustContainer(t, c)
	testutil.Require(t, got.Note != nil, "there is no note")
	testutil.Equal(t, got.Note.Annotations[annotationSandboxID], c.Sandbox.ID, "the sandbox's id")
	testutil.Assert(t, got.Note.InSandbox, "the container is not in the pod's sandbox")
	// While the proof of criadapter-oci fails, the pod's containers still need their notes.
	c.Features.OCIRuntime.Fault, c.Sandbox.Runtime = "it fails", "gvisor"
	testutil.Assert(t, mustContainer(t, c).Note != nil, "there is no note while criadapter-oci fails")
	users := &runtimeapi.UserNamespace{
		Mode: runtimeapi.NamespaceMode_POD,
		Uids: []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}},
		Gids: []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}},
	}
	in.Config.Linux.SecurityContext.NamespaceOptions.UsernsOptions = users
	in.Features.OCIRuntime.UserNamespaces = true
	_, err = Sandbox(in)
	testutil.Assert(t, errdefs.IsNotImplemented(err), "a user namespace: %v", err)
}

func TestRuntime(t *testing.T) {
	f := newEngine()
	f.DefaultRuntime = "kata"
	named := f
	named.Runtimes = []string{"docker", "kata", "runc"}
	for _, tc := range []struct {
		handler  string
		features docker.Features
		want     string
	}{
		{"", f, "kata"}, {"runc", f, "runc"}, {"kata", f, "kata"},
		{"docker", f, "kata"}, {"docker", named, "docker"},
	} {
		in := sandboxInput()
		in.Features, in.RuntimeHandler = tc.features, tc.handler
		testutil.Equal(t, mustSandbox(t, in).Host.Runtime, tc.want, "the sandbox's runtime for %q", tc.handler)
		c := containerInput()
		c.Features, c.Sandbox.RuntimeHandler = tc.features, tc.handler
		testutil.Equal(t, mustContainer(t, c).Host.Runtime, tc.want, "the container's runtime for %q", tc.handler)
	}
}

func TestSandboxOOMScore(t *testing.T) {
	in := sandboxInput()
	testutil.Equal(t, mustSandbox(t, in).Host.OomScoreAdj, -998, "oom_score_adj")
	in.Features.NegativeOOMScore = false
	got := mustSandbox(t, in).Host.OomScoreAdj
	testutil.Assert(t, got == 0, "oom_score_adj is %d on an engine that cannot set a negative one", got)
}

func TestSandboxUser(t *testing.T) {
	in := sandboxInput()
	sc := in.Config.Linux.SecurityContext
	sc.RunAsUser, sc.RunAsGroup, sc.SupplementalGroups = int64Value(0), int64Value(7), []int64{1, 2}
	spec := mustSandbox(t, in)
	testutil.Assert(t, spec.Config.User == "0:7" && slices.Equal(spec.Host.GroupAdd, []string{"1", "2"}),
		"user %q, groups %q", spec.Config.User, spec.Host.GroupAdd)
}

func TestSandboxSecurity(t *testing.T) {
	read := func(path string) ([]byte, error) {
		if path == apparmorProfiles {
			return []byte("p (enforce)\n"), nil
		}
		return []byte(`{"defaultAction": "SCMP_ACT_ALLOW"}`), nil
	}
	for _, tc := range []struct {
		name string
		sc   *runtimeapi.LinuxSandboxSecurityContext
		want []string
	}{
		{"nothing said", &runtimeapi.LinuxSandboxSecurityContext{}, []string{"no-new-privileges=true"}},
		{"the runtime's default",
			&runtimeapi.LinuxSandboxSecurityContext{Seccomp: &runtimeapi.SecurityProfile{},
				Apparmor: &runtimeapi.SecurityProfile{}}, []string{"no-new-privileges=true"}},
		{"unconfined", &runtimeapi.LinuxSandboxSecurityContext{
			Seccomp:  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
			Apparmor: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
		}, []string{"no-new-privileges=true", "seccomp=unconfined", "apparmor=unconfined"}},
		{"profiles of the node", &runtimeapi.LinuxSandboxSecurityContext{
			Seccomp: localhost("/p.json"), Apparmor: localhost("p"),
			SelinuxOptions: &runtimeapi.SELinuxOption{Level: "s0:c1,c2"},
		},
			[]string{"no-new-privileges=true", `seccomp={"defaultAction":"SCMP_ACT_ALLOW"}`, "apparmor=p",
				"label=level:s0:c1,c2"}},
		{"privileged containers announced", &runtimeapi.LinuxSandboxSecurityContext{Privileged: true},
			[]string{"no-new-privileges=true"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := sandboxInput()
			in.Features, in.ReadProfile = newEngine(), read
			in.Config.Linux.SecurityContext = tc.sc
			spec := mustSandbox(t, in)
			testutil.Assert(t, slices.Equal(spec.Host.SecurityOpt, tc.want),
				"got %q, want %q", spec.Host.SecurityOpt, tc.want)
			testutil.Assert(t, !spec.Host.Privileged, "the sandbox is privileged")
		})
	}
}
