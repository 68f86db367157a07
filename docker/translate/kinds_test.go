package translate_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	shellImage   = "test/busybox:latest"
	serviceImage = "test/hello:latest"
)

const (
	onNode = runtimeapi.NamespaceMode_NODE
	own    = runtimeapi.NamespaceMode_CONTAINER
)

// running is a pod with one container, both started.
type running struct {
	n                    *node
	sandbox, application *container.InspectResponse
}

// kinds are pods of every kind, each with a check of its real processes.
var kinds = []struct {
	name  string
	mod   func(n *node, pod *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig)
	check func(t *testing.T, r running)
}{
	{"nothing special", nothing, func(t *testing.T, r running) {
		r.sharesWithSandbox(t, "net", "ipc", "pid")
		r.differsFromNode(t, "net", "ipc", "pid", "uts", "mnt")
	}},
	{"own PIDs", func(_ *node, pod *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		setNamespaces(pod, app, &runtimeapi.NamespaceOption{Pid: own})
	}, func(t *testing.T, r running) {
		r.sharesWithSandbox(t, "net", "ipc")
		r.differsFromSandbox(t, "pid")
	}},
	{"the node's namespaces", func(_ *node, pod *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		setNamespaces(pod, app, &runtimeapi.NamespaceOption{Network: onNode, Pid: onNode, Ipc: onNode})
	}, func(t *testing.T, r running) {
		for _, kind := range []string{"net", "ipc", "pid", "uts"} {
			testutil.Assert(t, namespace(t, r.application.State.Pid, kind) == namespace(t, os.Getpid(), kind),
				"the %s namespace is not the node's", kind)
		}
	}},
	{"own IPC", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		app.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Ipc: own}
	}, func(t *testing.T, r running) { r.differsFromSandbox(t, "ipc") }},
	{"sysctls and a host name", func(_ *node, pod *runtimeapi.PodSandboxConfig, _ *runtimeapi.ContainerConfig) {
		pod.Hostname = "web-0"
		pod.Linux.Sysctls = map[string]string{"net.ipv4.ip_local_port_range": "20000\t30000",
			"kernel.shm_rmid_forced": "1"}
	}, func(t *testing.T, r running) {
		for file, want := range map[string]string{
			"kernel/hostname": "web-0", "net/ipv4/ip_local_port_range": "20000 30000", "kernel/shm_rmid_forced": "1",
		} {
			got := r.run(t, "cat", "/proc/sys/"+file)
			testutil.Assert(t, strings.Join(strings.Fields(got), " ") == want, "%s is %q, want %q", file, got, want)
		}
	}},
	{"user and groups", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		sc := app.Linux.SecurityContext
		sc.RunAsUser, sc.RunAsGroup, sc.SupplementalGroups = &runtimeapi.Int64Value{
			Value: 1234}, &runtimeapi.Int64Value{Value: 5678}, []int64{99, 100}
		sc.NoNewPrivs, sc.ReadonlyRootfs = true, true
	}, func(t *testing.T, r running) {
		for field, want := range map[string]string{"Uid": "1234 1234 1234 1234", "Gid": "5678 5678 5678 5678",
			"NoNewPrivs": "1"} {
			testutil.Equal(t, statusField(t, r.application.State.Pid, field), want, "%s", field)
		}
		groups := strings.Fields(statusField(t, r.application.State.Pid, "Groups"))
		testutil.Assert(t, slices.Contains(groups, "99") && slices.Contains(groups, "100"), "groups %q", groups)
	}},
	{"seccomp default", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		app.Linux.SecurityContext.Seccomp = &runtimeapi.SecurityProfile{}
	}, func(t *testing.T, r running) { r.wantStatus(t, "Seccomp", "2") }},
	{"seccomp unconfined", nothing, func(t *testing.T, r running) { r.wantStatus(t, "Seccomp", "0") }},
	{"seccomp profile without system calls",
		func(n *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
			path := filepath.Join(n.scratch(), "profile.json")
			testutil.Must(n, os.WriteFile(path, []byte(`{"defaultAction":"SCMP_ACT_LOG"}`), 0o644))
			app.Linux.SecurityContext.Seccomp = &runtimeapi.SecurityProfile{
				ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: path}
		}, func(t *testing.T, r running) { r.wantStatus(t, "Seccomp", "2") }},
	{"capabilities", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		app.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{DropCapabilities: []string{"ALL"},
			AddCapabilities: []string{"NET_BIND_SERVICE"}}
	}, func(t *testing.T, r running) { r.wantStatus(t, "CapBnd", "0000000000000400") }},
	{"privileged", func(_ *node, pod *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		pod.Linux.SecurityContext.Privileged, app.Linux.SecurityContext.Privileged = true, true
	}, func(t *testing.T, r running) {
		r.wantStatus(t, "Seccomp", "0")
		masked := r.masks(t)
		testutil.Assert(t, masked <= 0, "%d paths are masked", masked)
		testutil.Assert(t, !r.sandbox.HostConfig.Privileged, "the sandbox is privileged")
	}},
	{"masked paths", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		app.Linux.SecurityContext.MaskedPaths = []string{"/proc/kcore", "/proc/acpi"}
		app.Linux.SecurityContext.ReadonlyPaths = []string{"/proc/sys"}
	}, func(t *testing.T, r running) {
		testutil.Assert(t, r.masks(t) != 0, "no path is masked")
	}},
	{"no masked paths", nothing, func(t *testing.T, r running) {
		masked := r.masks(t)
		testutil.Assert(t, masked <= 0, "%d paths are masked", masked)
	}},
	{"mounts", func(n *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		dir := n.scratch()
		file := filepath.Join(dir, "with:colon")
		testutil.Must(n, os.WriteFile(file, []byte("host"), 0o644))
		app.Mounts = []*runtimeapi.Mount{
			{HostPath: dir, ContainerPath: "/a/shared",
				Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
			{HostPath: dir, ContainerPath: "/a/slave",
				Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, Readonly: true},
			{HostPath: file, ContainerPath: "/dev/termination-log"},
			{HostPath: file, ContainerPath: "/etc/hosts", Readonly: true},
			{HostPath: n.features.Root, ContainerPath: "/engine"},
		}
	}, checkMounts},
	{"devices", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		app.Devices = []*runtimeapi.Device{{HostPath: "/dev/null", ContainerPath: "/dev/nothing", Permissions: "rw"}}
	}, func(t *testing.T, r running) {
		info, err := os.Stat(r.root("dev/nothing"))
		testutil.Assert(t, err == nil && info.Mode()&os.ModeCharDevice != 0, "%v, %v", info, err)
	}},
	{"limits", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		app.Linux.Resources = &runtimeapi.LinuxContainerResources{
			CpuPeriod: 100000, CpuQuota: 20000, CpuShares: 128, MemoryLimitInBytes: 64 << 20, OomScoreAdj: 985,
			CpusetCpus: "0",
		}
	}, func(t *testing.T, r running) {
		testutil.Equal(t, readProc(t, r.application.State.Pid, "oom_score_adj"), "985", "oom_score_adj")
		got := r.application.HostConfig.Resources
		if got.Memory != 64<<20 || got.CPUQuota != 20000 || got.CPUShares != 128 || got.CpusetCpus != "0" {
			t.Errorf("limits %+v", got)
		}
	}},
	{"a terminal", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		app.Tty, app.Stdin, app.StdinOnce = true, true, true
	}, func(t *testing.T, r running) {
		fd, err := os.Readlink(r.proc("fd/0"))
		testutil.Assert(t, err == nil && strings.Contains(fd, "/dev/pts/"), "the standard input is %s, %v", fd, err)
	}},
	{"a real-time stop signal", func(_ *node, _ *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		app.StopSignal = runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14
	}, func(t *testing.T, r running) {
		testutil.Equal(t, r.application.Config.StopSignal, "SIGRTMAX-14", "the stop signal")
	}},
	{"difficult names", func(_ *node, pod *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig) {
		pod.Metadata.Name, pod.Metadata.Namespace, app.Metadata.Name = "my_pod/ü", strings.Repeat("n", 253), "POD"
	}, func(t *testing.T, r running) { r.sharesWithSandbox(t, "net") }},
}

func nothing(*node, *runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig) {}

func setNamespaces(
	pod *runtimeapi.PodSandboxConfig, app *runtimeapi.ContainerConfig, options *runtimeapi.NamespaceOption,
) {
	pod.Linux.SecurityContext.NamespaceOptions = options
	app.Linux.SecurityContext.NamespaceOptions = options
}

// TestEveryKindStarts creates and starts pods of every kind on the real engine.
func TestEveryKindStarts(t *testing.T) {
	env := rigenv.Require(t)
	for _, tc := range kinds {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, env, env.DockerHost, shellImage, serviceImage)
			pod, app := n.pod(), n.app()
			app.Command = []string{"sleep", "1000"}
			tc.mod(n, pod, app)
			sandbox := n.start(n.sandboxSpec(serviceImage, pod, n.features))
			application := n.start(n.containerSpec(shellImage, sandbox.ID, pod, app))
			tc.check(t, running{n, sandbox, application})
		})
	}
}

// A debugging container joins the processes of another one.
func TestTargetPID(t *testing.T) {
	env := rigenv.Require(t)
	n := newNode(t, env, env.DockerHost, shellImage, serviceImage)
	pod, app := n.pod(), n.app()
	app.Command = []string{"sleep", "1000"}
	app.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Pid: own}
	sandbox := n.start(n.sandboxSpec(serviceImage, pod, n.features))
	target := n.start(n.containerSpec(shellImage, sandbox.ID, pod, app))

	app.Metadata.Name = "debugger"
	app.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET,
		TargetId: target.ID}
	debugger := n.start(n.containerSpec(shellImage, sandbox.ID, pod, app))
	testutil.Assert(t, namespace(t, debugger.State.Pid, "pid") == namespace(t, target.State.Pid, "pid"),
		"the debugger does not see its target's processes")
}

// scratch is a directory on a shared mount.
func (n *node) scratch() string {
	n.Helper()
	dir, err := os.MkdirTemp(n.env.WorkDir, "m")
	testutil.Must(n, err)
	n.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (r running) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(r.application.State.Pid), name)
}

// root is a path inside the container, seen from here.
func (r running) root(name string) string { return r.proc(filepath.Join("root", name)) }

// run runs a command in the container and returns its output.
func (r running) run(t *testing.T, command ...string) string {
	t.Helper()
	ctx, opts := r.n.context(), docker.ExecOptions{Command: command, Stdout: true, Stderr: true}
	id, err := r.n.engine.CreateExec(ctx, r.application.ID, opts)
	testutil.Must(t, err)
	stream, err := r.n.engine.AttachExec(ctx, id, opts)
	testutil.Must(t, err)
	defer func() { _ = stream.Close() }()
	var out bytes.Buffer
	testutil.Must(t, docker.Demultiplex(&out, &out, stream))
	return out.String()
}

func (r running) wantStatus(t *testing.T, field, want string) {
	t.Helper()
	testutil.Equal(t, statusField(t, r.application.State.Pid, field), want, "%s", field)
}

func (r running) sharesWithSandbox(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		testutil.Assert(t, namespace(t, r.application.State.Pid, kind) == namespace(t, r.sandbox.State.Pid, kind),
			"the %s namespace is not the sandbox's", kind)
	}
}

func (r running) differsFromSandbox(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		testutil.Assert(t, namespace(t, r.application.State.Pid, kind) != namespace(t, r.sandbox.State.Pid, kind),
			"the %s namespace is the sandbox's", kind)
	}
}

func (r running) differsFromNode(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		testutil.Assert(t, namespace(t, r.application.State.Pid, kind) != namespace(t, os.Getpid(), kind),
			"the %s namespace is the node's", kind)
	}
}

// mountsByTarget maps the container's mount points to their lines in mountinfo.
func (r running) mountsByTarget(t *testing.T) map[string]string {
	t.Helper()
	const targetColumn = 4
	out := map[string]string{}
	for line := range strings.Lines(readProc(t, r.application.State.Pid, "mountinfo")) {
		if fields := strings.Fields(line); len(fields) > targetColumn {
			out[fields[targetColumn]] = line
		}
	}
	return out
}

// masks counts the mounts that hide parts of /proc and /sys.
func (r running) masks(t *testing.T) int {
	t.Helper()
	count := 0
	for target := range maps.Keys(r.mountsByTarget(t)) {
		if strings.HasPrefix(target, "/proc/") || strings.HasPrefix(target, "/sys/firmware") {
			count++
		}
	}
	return count
}

func checkMounts(t *testing.T, r running) {
	mounts := r.mountsByTarget(t)
	line := mounts["/a/shared"]
	testutil.Assert(t, strings.Contains(line, "shared:"), "the bidirectional mount is %q", line)
	if line := mounts["/a/slave"]; !strings.Contains(line, "master:") || !strings.Contains(line, " ro,") {
		t.Errorf("the read-only mount with HostToContainer propagation is %q", line)
	}
	for _, target := range []string{"/dev/termination-log", "/engine"} {
		testutil.Assert(t, mounts[target] != "", "nothing is mounted at %s", target)
	}
	content, err := os.ReadFile(r.root("etc/hosts"))
	testutil.Assert(t, err == nil && string(content) == "host", "/etc/hosts holds %q, %v", content, err)
}
