package translate

import (
	"reflect"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// withoutContainer is a container in a pod that has no sandbox container.
func withoutContainer() ContainerInput {
	in := noted(containerInput())
	in.Sandbox.Namespaces = &PodNamespaces{Network: "/run/netns/p", IPC: "/run/p/ipc", UTS: "/run/p/uts",
		Shm: "/run/p/shm"}
	in.Sandbox.Config.Linux = &runtimeapi.LinuxPodSandboxConfig{
		SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}}
	in.Config.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
	}}
	return in
}

func options(in ContainerInput) *runtimeapi.NamespaceOption {
	return in.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

func podOptions(in ContainerInput) *runtimeapi.NamespaceOption {
	return in.Sandbox.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

// TestContainerJoinsNamespaces puts containers into pods without a sandbox container.
func TestContainerJoinsNamespaces(t *testing.T) {
	hostname := Hostname(containerInput().Sandbox.Config)
	for name, tt := range map[string]struct {
		change  func(*ContainerInput)
		want    *ocinote.Note
		network container.NetworkMode
		ipc     container.IpcMode
		shm     string
	}{
		"its own network": {
			func(*ContainerInput) {},
			&ocinote.Note{
				Namespaces: map[string]string{"network": "/run/netns/p", "uts": "/run/p/uts", "ipc": "/run/p/ipc"},
				Hostname:   hostname, DropSysctls: true,
			}, modeNone, container.IPCModeNone, "/run/p/shm",
		},
		"an IPC namespace of its own": {
			func(in *ContainerInput) { options(*in).Ipc = runtimeapi.NamespaceMode_CONTAINER },
			&ocinote.Note{
				Namespaces: map[string]string{"network": "/run/netns/p", "uts": "/run/p/uts"},
				Hostname:   hostname, DropSysctls: true,
			}, modeNone, container.IPCModePrivate, "",
		},
		"a /dev/shm of its own": {
			func(in *ContainerInput) {
				in.Config.Mounts = []*runtimeapi.Mount{{HostPath: "/srv/shm", ContainerPath: "/dev/shm"}}
			},
			&ocinote.Note{
				Namespaces: map[string]string{"network": "/run/netns/p", "uts": "/run/p/uts", "ipc": "/run/p/ipc"},
				Hostname:   hostname, DropSysctls: true,
			}, modeNone, container.IPCModeNone, "/srv/shm",
		},
		"the node's network": {
			func(in *ContainerInput) {
				podOptions(*in).Network, options(*in).
					Network = runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE
			},
			&ocinote.Note{Namespaces: map[string]string{"ipc": "/run/p/ipc"}}, modeHost, container.IPCModeNone,
			"/run/p/shm",
		},
		"only namespaces of the node": {
			func(in *ContainerInput) {
				podOptions(*in).Network, options(*in).
					Network = runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE
				podOptions(*in).Ipc, options(*in).Ipc = runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_NODE
			}, nil, modeHost, container.IPCModeHost, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := withoutContainer()
			tt.change(&in)
			spec, err := Container(in)
			testutil.Require(t, err == nil && reflect.DeepEqual(spec.Note, tt.want),
				"the note is %+v, %v", spec.Note, err)
			if spec.Host.NetworkMode != tt.network || spec.Host.IpcMode != tt.ipc ||
				spec.Config.NetworkDisabled != (tt.network == modeNone) {
				t.Errorf("network %s, IPC %s, network disabled %v", spec.Host.NetworkMode, spec.Host.IpcMode,
					spec.Config.NetworkDisabled)
			}
			if tt.network == modeNone && spec.Config.Hostname != hostname {
				t.Errorf("$HOSTNAME is %q", spec.Config.Hostname)
			}
			shm := ""
			for _, m := range spec.Host.Mounts {
				if m.Target == "/dev/shm" {
					shm = m.Source
				}
			}
			testutil.Assert(t, shm == tt.shm, "/dev/shm is %q, want %q", shm, tt.shm)
			if strings.Contains(string(spec.Host.NetworkMode)+string(spec.Host.IpcMode)+string(spec.Host.PidMode),
				sandboxID) {
				t.Error("it joins a sandbox container")
			}
		})
	}
}

func TestContainerCannotJoin(t *testing.T) {
	in := withoutContainer()
	in.Features.OCIRuntime = docker.OCIRuntime{}
	_, err := Container(in)
	testutil.Assert(t, errdefs.IsNotImplemented(err) && strings.Contains(err.Error(), "criadapter-oci"),
		"without the runtime: %v", err)
	in = withoutContainer()
	options(in).Pid = runtimeapi.NamespaceMode_POD
	_, err = Container(in)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "namespace_options.pid"),
		"a PID namespace that is not there: %v", err)
	podOptions(in).Pid = runtimeapi.NamespaceMode_NODE
	if spec, err := Container(in); err != nil || spec.Host.PidMode != modeHost {
		t.Errorf("the node's PID namespace: %q, %v", spec.Host.PidMode, err)
	}
}

// While OCIRuntime has a Fault, pods that already use the runtime get containers as before. In other pods, a container
// that needs the runtime is refused.
func TestRuntimeWithAFault(t *testing.T) {
	in := withoutContainer()
	want, err := Container(in)
	testutil.Must(t, err)
	in.Features.OCIRuntime.Fault = "the disk is full"
	if got, err := Container(in); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("in a pod without a sandbox container: %+v, %v", got, err)
	}
	in = noted(containerInput())
	in.Features.OCIRuntime.Fault = "the disk is full"
	in.Config.Mounts = []*runtimeapi.Mount{{HostPath: "/srv", ContainerPath: "/srv", MountOptions: []string{"noexec"}}}
	if _, err := Container(in); !errdefs.IsNotImplemented(err) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("in a pod with one: %v", err)
	}
	in.Sandbox.UserNamespace = "/run/netns/user"
	_, err = Container(in)
	testutil.Check(t, err, "in a pod with a user namespace")
}

// A pod whose containers join it by notes keeps its runtime when the engine gets another default runtime. A record of
// an older criadapter has only the handler, not the runtime.
func TestRuntimeOfAHeldPod(t *testing.T) {
	for name, c := range map[string]struct {
		handler, recorded, want string
		refused                 bool
	}{
		"an explicit handler":                {handler: "runc", recorded: "runc", want: "runc"},
		"the default":                        {recorded: "runc", want: "runc"},
		"a runtime that is gone":             {recorded: "older", want: "crun"},
		"an older record, the default":       {want: "crun"},
		"an older record, explicit":          {handler: "runc", refused: true},
		"the handler of the present default": {handler: "crun", recorded: "crun", want: "crun"},
	} {
		in := withoutContainer()
		in.Features.Runtimes, in.Features.DefaultRuntime = []string{"crun", "runc"}, "crun"
		in.Sandbox.RuntimeHandler, in.Sandbox.Runtime = c.handler, c.recorded
		spec, err := Container(in)
		testutil.Assert(t, errdefs.IsNotImplemented(err) == c.refused && (err == nil || c.refused), "%s: %v", name, err)
		if err == nil && (spec.Host.Runtime != c.want || spec.Note == nil) {
			t.Errorf("%s: the runtime is %q with the note %+v, want %q", name, spec.Host.Runtime, spec.Note, c.want)
		}
	}
	in := containerInput() // of a pod with a sandbox container
	in.Features.Runtimes, in.Features.DefaultRuntime = []string{"crun", "runc"}, "crun"
	in.Sandbox.Runtime = "runc"
	if spec := mustContainer(t, in); spec.Host.Runtime != "crun" {
		t.Errorf("in a pod with a sandbox container: the runtime is %q", spec.Host.Runtime)
	}
}

// The probe tested recursive read-only mounts with the default runtime only. A pod may keep an older runtime, which may
// ignore the option.
func TestRecursiveReadOnlyOfAKeptRuntime(t *testing.T) {
	for name, c := range map[string]struct {
		kept    string
		listed  []string
		refused bool
	}{
		"the default":                          {kept: "crun"},
		"one that the engine lists":            {kept: "runc", listed: []string{"crun", "runc"}},
		"a runtime without a list of features": {kept: "runc", listed: []string{"crun"}, refused: true},
	} {
		in := withoutContainer()
		in.Features.APIVersion, in.Features.RecursiveReadOnly = docker.APIRecursiveReadOnly, c.listed
		in.Features.Runtimes, in.Features.DefaultRuntime = []string{"crun", "runc"}, "crun"
		in.Sandbox.Runtime = c.kept
		in.Config.Mounts = []*runtimeapi.Mount{
			{HostPath: "/srv", ContainerPath: "/data", Readonly: true, RecursiveReadOnly: true}}
		spec, err := Container(in)
		testutil.Assert(t, errdefs.IsNotImplemented(err) == c.refused &&
			(err == nil || strings.Contains(err.Error(), "the runtime runc here does not")), "%s: %v", name, err)
		if err == nil && !reflect.DeepEqual(spec.Note.MountOptions["/data"], []string{"rro"}) {
			t.Errorf("%s: the note is %+v", name, spec.Note)
		}
	}
}

// TestWithoutContainer decides which pods need a sandbox container.
func TestWithoutContainer(t *testing.T) {
	able := func() SandboxInput {
		in := sandboxInput()
		in.Features = oldEngine()
		in.Features.OCIRuntime.Name = "criadapter"
		in.Image = ""
		in.Config.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_CONTAINER
		return in
	}
	in := able()
	in.Config.Linux.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "1024",
		"kernel.shm_rmid_forced": "1"}
	got, ok, err := WithoutContainer(in)
	want := KernelPod{
		IPC: true, UTS: true, Hostname: "web-0", CgroupParent: got.CgroupParent, Sysctls: map[string]string{
			"net.ipv4.ip_unprivileged_port_start": "1024", "net.ipv4.ping_group_range": "0 2147483647",
			"kernel.shm_rmid_forced": "1",
		},
	}
	testutil.Assert(t, err == nil && ok && reflect.DeepEqual(got, want), "got %+v, %v, %v", got, ok, err)
	in.Features.InUserNamespace = true
	delete(want.Sysctls, pingGroups)
	got, ok, err = WithoutContainer(in)
	testutil.Assert(t, err == nil && ok && reflect.DeepEqual(got, want), "in a user namespace: %+v, %v", got, err)
	in = able()
	in.Config.Hostname = ""
	in.Config.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_NODE, Ipc: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_NODE,
	}
	if got, ok, err := WithoutContainer(in); err != nil || !ok || got.IPC || got.UTS || len(got.Sysctls) > 0 {
		t.Errorf("on the node's: %+v, %v, %v", got, ok, err)
	}
	for name, change := range map[string]func(*SandboxInput){
		"no runtime": func(in *SandboxInput) { in.Features.OCIRuntime.Name = "" },
		"a runtime that is not seen to work": func(in *SandboxInput) {
			in.Features.OCIRuntime.Fault = "the disk is full"
		},
		"a shared PID": func(in *SandboxInput) {
			in.Config.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
		},
		"the engine's bridge": func(in *SandboxInput) { in.PublishPorts = true },
		"SELinux":             func(in *SandboxInput) { in.Features.SELinux = true },
		"another handler": func(in *SandboxInput) {
			in.RuntimeHandler, in.Features.Runtimes = "crun", []string{"crun", "runc"}
		},
	} {
		in := able()
		change(&in)
		_, ok, err := WithoutContainer(in)
		testutil.Assert(t, !ok && err == nil, "%s: %v, %v", name, ok, err)
	}
	in = able()
	in.Config.Linux.Sysctls = map[string]string{"vm.swappiness": "1"}
	_, _, err = WithoutContainer(in)
	testutil.Fails(t, err, errdefs.IsInvalidArgument, "a sysctl of the node")
}

// TestPodOfContainer rebuilds a pod's configuration from one of its containers.
func TestPodOfContainer(t *testing.T) {
	in := withoutContainer()
	in.Config.Labels = map[string]string{"io.kubernetes.pod.uid": "u", "app": "web"}
	spec, err := Container(in)
	testutil.Must(t, err)
	config, id, ok := PodOfContainer(spec.Config.Labels, "/"+spec.Name)
	want, got := in.Sandbox.Config.GetMetadata(), config.GetMetadata()
	testutil.Assert(t, ok && id == in.Sandbox.ID && got.GetName() == want.GetName() && got.GetUid() == want.GetUid() &&
		got.GetAttempt() == want.GetAttempt() &&
		reflect.DeepEqual(config.GetLabels(), map[string]string{"io.kubernetes.pod.uid": "u"}),
		"found %v of %s, %v", config, id, ok)
	_, _, ok = PodOfContainer(spec.Config.Labels, "k8s_other_a_b_c_0")
	testutil.Assert(t, !ok, "the labels are another container's")
	delete(spec.Config.Labels, LabelRecord)
	_, _, ok = PodOfContainer(spec.Config.Labels, spec.Name)
	testutil.Assert(t, !ok, "another shim's container names a pod of ours")
}
