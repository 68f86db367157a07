package translate

import (
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestContainerNamespaces(t *testing.T) {
	const node, own, target = runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_CONTAINER,
		runtimeapi.NamespaceMode_TARGET
	const join = "container:" + sandboxID
	type modes struct {
		network container.NetworkMode
		uts     container.UTSMode
		pid     container.PidMode
		ipc     container.IpcMode
	}
	for _, tc := range []struct {
		name     string
		pod, own *runtimeapi.NamespaceOption
		want     modes
	}{
		{"nothing said", nil, nil, modes{join, "", join, join}},
		{"the kubelet's usual", &runtimeapi.NamespaceOption{Pid: own}, &runtimeapi.NamespaceOption{Pid: own},
			modes{join, "", "", join}},
		{"a debugging container's target", nil, &runtimeapi.NamespaceOption{Pid: target, TargetId: "abc"},
			modes{join, "", "container:abc", join}},
		{"the node's network", &runtimeapi.NamespaceOption{Network: node}, nil, modes{join, "host", join, join}},
		{"the node's network, said by the container, too", &runtimeapi.NamespaceOption{Network: node},
			&runtimeapi.NamespaceOption{Network: node}, modes{join, "host", join, join}},
		{"the node's PIDs", &runtimeapi.NamespaceOption{Pid: node}, &runtimeapi.NamespaceOption{Pid: node},
			modes{join, "", "host", join}},
		{"the pod's PIDs, which are the node's", &runtimeapi.NamespaceOption{Pid: node}, nil,
			modes{join, "", "host", join}},
		{"own PIDs in a pod with the node's", &runtimeapi.NamespaceOption{Pid: node},
			&runtimeapi.NamespaceOption{Pid: own}, modes{join, "", "", join}},
		{"the node's IPC", &runtimeapi.NamespaceOption{Ipc: node}, &runtimeapi.NamespaceOption{Ipc: node},
			modes{join, "", join, "host"}},
		{"the pod's IPC, which is the node's", &runtimeapi.NamespaceOption{Ipc: node}, nil,
			modes{join, "", join, "host"}},
		{"own IPC", nil, &runtimeapi.NamespaceOption{Ipc: own}, modes{join, "", join, "private"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := containerInput()
			in.Sandbox.Config.Linux.SecurityContext.NamespaceOptions = tc.pod
			in.Config.Linux.SecurityContext.NamespaceOptions = tc.own
			spec := mustContainer(t, in)
			got := modes{spec.Host.NetworkMode, spec.Host.UTSMode, spec.Host.PidMode, spec.Host.IpcMode}
			testutil.Assert(t, got == tc.want, "got %+v, want %+v", got, tc.want)
			testutil.Assert(t, spec.Config.Hostname == "" && !spec.Config.NetworkDisabled,
				"Docker refuses a host name with a shared network, and needs the network enabled to share it")
		})
	}
}

// A pod's labels do not show that it uses the node's network. For a pod that was rebuilt from its labels, the cache
// shows it.
func TestHostNetworkOfARebuiltPod(t *testing.T) {
	in := containerInput()
	in.Sandbox.Config = &runtimeapi.PodSandboxConfig{Metadata: podMetadata()}
	in.Sandbox.HostNetwork = true
	testutil.Equal(t, mustContainer(t, in).Host.UTSMode, "host", "the UTS namespace")
}

func TestContainerWithoutLinuxPart(t *testing.T) {
	in := containerInput()
	in.Config.Linux = nil
	spec := mustContainer(t, in)
	testutil.Assert(t, spec.Host.MaskedPaths == nil && spec.Host.ReadonlyPaths == nil,
		"without a security context Docker's own masked paths apply")
	testutil.Assert(t, slices.Equal(spec.Host.SecurityOpt, []string{"no-new-privileges=false", "seccomp=unconfined"}),
		"got %q", spec.Host.SecurityOpt)
}

func TestProcess(t *testing.T) {
	in := containerInput()
	c := in.Config
	c.Command, c.Args = []string{"/bin/sh", "-c"}, []string{"echo 'ü'\n", ""}
	c.Envs = []*runtimeapi.KeyValue{{Key: "A", Value: []byte("1=2\n")}, {Key: "dotted.name-x"}}
	c.WorkingDir, c.StopSignal = "/srv//app/", runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3
	c.Stdin, c.StdinOnce, c.Tty = true, true, true
	got := mustContainer(t, in).Config
	testutil.Assert(t, slices.Equal(got.Entrypoint, c.Command) && slices.Equal(got.Cmd, c.Args),
		"entrypoint %q, arguments %q", got.Entrypoint, got.Cmd)
	testutil.Assert(t, slices.Equal(got.Env, []string{"A=1=2\n", "dotted.name-x="}), "environment %q", got.Env)
	testutil.Assert(t, got.WorkingDir == "/srv/app" && got.StopSignal == "SIGRTMIN+3",
		"directory %q, signal %q", got.WorkingDir, got.StopSignal)
	testutil.Assert(t, got.OpenStdin && got.StdinOnce && got.Tty && !got.AttachStdin && !got.AttachStdout &&
		!got.AttachStderr, "streams %+v", got)
}

// A field that the client leaves out must be nil or empty. Docker then takes it from the image.
func TestProcessOfTheImage(t *testing.T) {
	in := containerInput()
	in.Config.Args = []string{"only", "arguments"}
	got := mustContainer(t, in).Config
	testutil.Assert(t, got.Entrypoint == nil && got.WorkingDir == "" && got.User == "" && got.Env == nil &&
		got.StopSignal == "", "got %+v", got)
	in.Config.Args, in.Config.Command = nil, []string{"program"}
	if got := mustContainer(t, in).Config; got.Cmd != nil {
		t.Errorf("arguments %q", got.Cmd)
	}
}

func TestUser(t *testing.T) {
	for _, tc := range []struct {
		sc   *runtimeapi.LinuxContainerSecurityContext
		want string
	}{
		{&runtimeapi.LinuxContainerSecurityContext{}, ""},
		{&runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(0)}, "0"},
		{&runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(1000), RunAsGroup: int64Value(0)}, "1000:0"},
		{&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "www-data"}, "www-data"},
		{&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "www-data", RunAsGroup: int64Value(1<<31 - 1)},
			"www-data:2147483647"},
	} {
		in := containerInput()
		in.Config.Linux.SecurityContext = tc.sc
		testutil.Equal(t, mustContainer(t, in).Config.User, tc.want, "%v gives", tc.sc)
	}
}

func TestLogPath(t *testing.T) {
	for _, tc := range []struct{ directory, path, want string }{
		{"/var/log/pods/p/", "app/0.log", "/var/log/pods/p/app/0.log"},
		{"/var/log/pods/p", "a/../b//0.log", "/var/log/pods/p/b/0.log"},
		{"/var/log/pods/p", "..log", "/var/log/pods/p/..log"},
		{"/var/log/pods/p", "", ""},
		{"", "app/0.log", ""},
	} {
		in := containerInput()
		in.Sandbox.Config.LogDirectory, in.Config.LogPath = tc.directory, tc.path
		testutil.Equal(t, LogPath(mustContainer(t, in).Config.Labels), tc.want, "%q in %q", tc.path, tc.directory)
	}
}

func bindMount(source, target string, options mount.BindOptions) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, BindOptions: &options}
}

func readOnly(m mount.Mount) mount.Mount {
	m.ReadOnly = true
	return m
}

func TestMounts(t *testing.T) {
	for _, tc := range []struct {
		name     string
		features docker.Features
		given    *runtimeapi.Mount
		want     mount.Mount
	}{
		{"plain", oldEngine(), &runtimeapi.Mount{HostPath: "/a//b/", ContainerPath: "/x/"},
			bindMount("/a/b", "/x", mount.BindOptions{})},
		{"relative target", oldEngine(), &runtimeapi.Mount{HostPath: "/a", ContainerPath: "x/y"},
			bindMount("/a", "/x/y", mount.BindOptions{})},
		{"a path with a colon", oldEngine(), &runtimeapi.Mount{HostPath: "/a:b", ContainerPath: "/x:y"},
			bindMount("/a:b", "/x:y", mount.BindOptions{})},
		{"from the host", oldEngine(),
			&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/x",
				Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
			bindMount("/a", "/x", mount.BindOptions{Propagation: mount.PropagationRSlave})},
		{"both ways", oldEngine(),
			&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/x",
				Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
			bindMount("/a", "/x", mount.BindOptions{Propagation: mount.PropagationRShared})},
		{"read-only on an engine that makes only the top so", oldEngine(),
			&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/x", Readonly: true},
			readOnly(bindMount("/a", "/x", mount.BindOptions{}))},
		{"read-only on an engine that goes deeper", newEngine(),
			&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/x", Readonly: true},
			readOnly(bindMount("/a", "/x", mount.BindOptions{ReadOnlyNonRecursive: true}))},
		{"recursively read-only", newEngine(),
			&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/x", Readonly: true, RecursiveReadOnly: true},
			readOnly(
				bindMount("/a", "/x",
					mount.BindOptions{ReadOnlyForceRecursive: true, Propagation: mount.PropagationRPrivate}))},
		{"relabelling without SELinux", oldEngine(),
			&runtimeapi.Mount{HostPath: "/a", ContainerPath: "/x", SelinuxRelabel: true},
			bindMount("/a", "/x", mount.BindOptions{})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := containerInput()
			in.Features, in.Config.Mounts = tc.features, []*runtimeapi.Mount{tc.given}
			host := mustContainer(t, in).Host
			testutil.Require(t, len(host.Mounts) == 1 && len(host.Binds) == 0,
				"mounts %v, binds %v", host.Mounts, host.Binds)
			got, options := host.Mounts[0], *host.Mounts[0].BindOptions
			got.BindOptions = tc.want.BindOptions
			testutil.Assert(t, got == tc.want && options == *tc.want.BindOptions,
				"got %+v with %+v, want %+v with %+v", got, options, tc.want, *tc.want.BindOptions)
		})
	}
}

// Volumes get the pod's label, whether the pod names one or the engine chose it.
func TestRelabelledMounts(t *testing.T) {
	relabelled(t, nil)
	relabelled(t, &runtimeapi.SELinuxOption{Level: "s0:c1,c2"})
}

func relabelled(t *testing.T, options *runtimeapi.SELinuxOption) {
	t.Helper()
	in := containerInput()
	in.Features = newEngine()
	in.Config.Linux.SecurityContext.SelinuxOptions = options
	in.Config.Mounts = []*runtimeapi.Mount{
		{HostPath: "/a", ContainerPath: "/x", SelinuxRelabel: true},
		{HostPath: "/b", ContainerPath: "/y", SelinuxRelabel: true, Readonly: true,
			Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
		{HostPath: "/c", ContainerPath: "/z"},
	}
	host := mustContainer(t, in).Host
	want := []string{"/a:/x:rw,Z", "/b:/y:ro,Z,rslave"}
	testutil.Assert(t, slices.Equal(host.Binds, want), "binds %q, want %q", host.Binds, want)
	testutil.Assert(t, len(host.Mounts) == 1 && host.Mounts[0].Source == "/c", "mounts %v", host.Mounts)
}

// The mounts of a container without an SELinux label are not relabelled. The engine's label for such a container would
// keep the pod's other containers out of the volume.
func TestMountsOfContainersWithoutLabel(t *testing.T) {
	node, level := runtimeapi.NamespaceMode_NODE, &runtimeapi.SELinuxOption{Level: "s0:c1,c2"}
	for _, tc := range []struct {
		name string
		sc   *runtimeapi.LinuxContainerSecurityContext
		want []string
	}{
		{"privileged", &runtimeapi.LinuxContainerSecurityContext{Privileged: true, SelinuxOptions: level}, nil},
		{"the node's processes", &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: node}}, nil},
		{"the node's IPC", &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Ipc: node}}, nil},
		{"the node's processes, and a label", &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: node}, SelinuxOptions: level}, []string{"/a:/x:rw,Z"}},
	} {
		in := containerInput()
		in.Features = newEngine()
		in.Sandbox.Config.Linux.SecurityContext.Privileged = true
		in.Config.Linux.SecurityContext = tc.sc
		in.Config.Mounts = []*runtimeapi.Mount{{HostPath: "/a", ContainerPath: "/x", SelinuxRelabel: true}}
		host := mustContainer(t, in).Host
		testutil.Assert(t, slices.Equal(host.Binds, tc.want) && len(host.Binds)+len(host.Mounts) == 1,
			"%s: binds %q, mounts %v", tc.name, host.Binds, host.Mounts)
	}
}

func TestHostFiles(t *testing.T) {
	files := HostFiles{ResolvConf: "/p/resolv.conf", Hosts: "/p/hosts", Hostname: "/p/hostname"}
	own := []*runtimeapi.Mount{{HostPath: "/kubelet/etc-hosts", ContainerPath: "/etc/hosts/"}}
	for _, tc := range []struct {
		name     string
		files    HostFiles
		mounts   []*runtimeapi.Mount
		readOnly bool
		want     []string
	}{
		{"none", HostFiles{}, nil, false, nil},
		{"all", files, nil, false,
			[]string{"/p/resolv.conf /etc/resolv.conf rw", "/p/hosts /etc/hosts rw", "/p/hostname /etc/hostname rw"}},
		{"one of the container's own", files, own, false,
			[]string{"/kubelet/etc-hosts /etc/hosts rw", "/p/resolv.conf /etc/resolv.conf rw",
				"/p/hostname /etc/hostname rw"}},
		{"some", HostFiles{Hosts: "/p/hosts"}, nil, false, []string{"/p/hosts /etc/hosts rw"}},
		{"read-only root", HostFiles{Hosts: "/p/hosts"}, nil, true, []string{"/p/hosts /etc/hosts ro"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := containerInput()
			in.Files, in.Config.Mounts = tc.files, tc.mounts
			in.Config.Linux.SecurityContext.ReadonlyRootfs = tc.readOnly
			var got []string
			for _, m := range mustContainer(t, in).Host.Mounts {
				mode := "rw"
				if m.ReadOnly {
					mode = "ro"
				}
				got = append(got, m.Source+" "+m.Target+" "+mode)
			}
			testutil.Assert(t, slices.Equal(got, tc.want), "got %q, want %q", got, tc.want)
		})
	}
	in := containerInput()
	in.Features, in.Files = newEngine(), files
	if got := mustContainer(t, in).Host.Binds; len(got) != 3 || got[0] != "/p/resolv.conf:/etc/resolv.conf:rw,z" {
		t.Errorf("with SELinux the files are mounted as %q", got)
	}
}

func TestHostSources(t *testing.T) {
	config := &runtimeapi.ContainerConfig{Mounts: []*runtimeapi.Mount{
		{HostPath: "/a", ContainerPath: "/a"}, {Image: &runtimeapi.ImageSpec{Image: "x"}, ContainerPath: "/b"}, nil,
		{HostPath: "/c", ContainerPath: "/c"},
	}}
	want := []HostSource{{"config.mounts[0].host_path", "/a"}, {"config.mounts[3].host_path", "/c"}}
	got := HostSources(config)
	testutil.Assert(t, slices.Equal(got, want), "got %v, want %v", got, want)
	got = HostSources(nil)
	testutil.Assert(t, got == nil, "nothing mounts %v", got)
}

func TestDevices(t *testing.T) {
	in := containerInput()
	in.Features = newEngine()
	devicesOf(&runtimeapi.Device{HostPath: "/dev/fuse", ContainerPath: "/dev/fuse", Permissions: "rwm"},
		&runtimeapi.Device{HostPath: "/dev/snd/", ContainerPath: "/dev/sound", Permissions: "r"})(&in, in.Config)
	withCDI("vendor.com/gpu=0", "vendor.com/gpu=all")(&in, in.Config)
	in.Config.Annotations = map[string]string{
		"cdi.k8s.io/claim_b": "vendor.com/net=eth1", "cdi.k8s.io/claim_a": "vendor.com/gpu=all,vendor.com/gpu=1",
		"other": "vendor.com/no=1",
	}
	host := mustContainer(t, in).Host
	want := []container.DeviceMapping{{PathOnHost: "/dev/fuse", PathInContainer: "/dev/fuse", CgroupPermissions: "rwm"},
		{PathOnHost: "/dev/snd", PathInContainer: "/dev/sound", CgroupPermissions: "r"}}
	testutil.Assert(t, slices.Equal(host.Devices, want), "devices %v", host.Devices)
	if r := host.DeviceRequests; len(r) != 1 || r[0].Driver != "cdi" ||
		!slices.Equal(r[0].DeviceIDs,
			[]string{"vendor.com/gpu=0", "vendor.com/gpu=all", "vendor.com/gpu=1", "vendor.com/net=eth1"}) {
		t.Errorf("CDI devices %+v", r)
	}
}

func TestCapabilities(t *testing.T) {
	in := containerInput()
	in.Config.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{
		AddCapabilities: []string{"NET_ADMIN", "CAP_SYS_TIME"}, DropCapabilities: []string{"ALL"}}
	host := mustContainer(t, in).Host
	testutil.Assert(t, slices.Equal(host.CapAdd, []string{"NET_ADMIN", "CAP_SYS_TIME"}) &&
		slices.Equal(host.CapDrop, []string{"ALL"}), "add %q, drop %q", host.CapAdd, host.CapDrop)
}

// On the wire an empty list equals a missing one (procMount: Unmasked). It must not become nil, because Docker would
// then mask its own paths.
func TestEmptyPathListsMeanNone(t *testing.T) {
	host := mustContainer(t, containerInput()).Host
	testutil.Require(t, host.MaskedPaths != nil && host.ReadonlyPaths != nil, "the lists are nil")
	testutil.Assert(t, len(host.MaskedPaths)+len(host.ReadonlyPaths) == 0,
		"masked %q, read-only %q", host.MaskedPaths, host.ReadonlyPaths)
	in := containerInput()
	in.Config.Linux.SecurityContext.MaskedPaths = []string{"/proc/kcore"}
	in.Config.Linux.SecurityContext.ReadonlyPaths = []string{"/proc/sys"}
	host = mustContainer(t, in).Host
	testutil.Assert(t, slices.Equal(host.MaskedPaths, []string{"/proc/kcore"}) &&
		slices.Equal(host.ReadonlyPaths, []string{"/proc/sys"}),
		"masked %q, read-only %q", host.MaskedPaths, host.ReadonlyPaths)
}
