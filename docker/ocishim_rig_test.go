package docker_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// startWithShim starts an engine on whose PATH the shim is.
func startWithShim(t *testing.T, env rigenv.Env, config map[string]any) *engine.Engine {
	t.Helper()
	return engine.ForTest(t, engine.Options{Env: env, Config: config, Path: filepath.Dir(env.OCIRuntime)})
}

// TestRigShimNeedsNoConfiguration connects to an engine whose daemon.json does not mention the runtime, and on whose
// PATH the shim is. Docker Engine 23 and newer run the shim. Older engines go without the runtime.
func TestRigShimNeedsNoConfiguration(t *testing.T) {
	const shim = "io.containerd.criadapter.v2"
	env := rigenv.Require(t)
	own := startWithShim(t, env, map[string]any{"runtimes": map[string]any{}})
	client := dialOCI(t, own, docker.OCIRuntimeAuto)
	features := awaitOCI(t, client, worksIfThere)
	testutil.Assert(t, !slices.Contains(features.Runtimes, shim), "pods may name the runtime: %v", features.Runtimes)
	if !features.Supports("1.42") {
		testutil.Assert(t, features.OCIRuntime.Name == "",
			"API %s has the runtime %+v", features.APIVersion, features.OCIRuntime)
		return
	}
	testutil.Require(t, features.OCIRuntime.Name == shim && features.OCIRuntime.RecursiveReadOnly,
		"the runtime is %+v", features.OCIRuntime)
	id := startNoted(t, env, client)
	lookAtNoted(t, client, id)
	testutil.Must(t, client.RemoveContainer(rigContext(t), id))
	left, err := features.OCIRuntime.Notes.List()
	testutil.Assert(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
}

// TestRigRecursiveMountByTheShim makes a container with a note and a recursive read-only mount. The engine knows the
// runtime only by its shim, and lists no features of the runtime.
func TestRigRecursiveMountByTheShim(t *testing.T) {
	env := rigenv.Require(t)
	own := startWithShim(t, env, map[string]any{"runtimes": map[string]any{}})
	client := dialOCI(t, own, docker.OCIRuntimeAuto)
	features := awaitOCI(t, client, worksIfThere)
	if !features.Supports("1.42") {
		return // this engine runs no shims by their names, see TestRigShimNeedsNoConfiguration
	}
	testutil.Must(t, client.PullImage(rigContext(t), env.Image(rigImage), docker.PullOptions{}))
	dir, err := os.MkdirTemp(env.WorkDir, "below")
	testutil.Must(t, err)
	below := filepath.Join(dir, "below")
	testutil.Must(t, errors.Join(os.Mkdir(below, 0o755), unix.Mount("below", below, "tmpfs", 0, "")))
	t.Cleanup(func() { _ = unix.Unmount(below, unix.MNT_DETACH) })
	spec, err := translate.Container(translate.ContainerInput{
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "reader"}, Command: []string{"sleep", "1000"},
			Linux: &runtimeapi.LinuxContainerConfig{
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: nodeNamespaces()}},
			Mounts: []*runtimeapi.Mount{
				{HostPath: dir, ContainerPath: "/recursive", Readonly: true, RecursiveReadOnly: true},
				{HostPath: dir, ContainerPath: "/plain", MountOptions: []string{"nodev"}},
			},
		},
		Sandbox: translate.SandboxRef{
			ID: strings.Repeat("0a", 32), HostNetwork: true, Namespaces: &translate.PodNamespaces{},
			Config: &runtimeapi.PodSandboxConfig{
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "reader", Namespace: "test", Uid: "reader-uid"},
				Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
					NamespaceOptions: nodeNamespaces(),
				}},
			},
		},
		ImageID: env.Image(rigImage), Features: features,
	})
	testutil.Must(t, err)
	id, err := client.CreateContainer(rigContext(t), spec)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = client.RemoveContainer(rigContext(t), id) })
	testutil.Must(t, client.StartContainer(rigContext(t), id))
	const want = "touch: /recursive/below/x: Read-only file system\r\nwritten\r\n"
	got := runInside(t, client, id, "touch /recursive/below/x && echo written; touch /plain/below/y && echo written")
	testutil.Assert(t, got == want, "inside: %q, want %q", got, want)
}

// lookAtNoted looks at the container's process from outside, and runs a command in it.
func lookAtNoted(t *testing.T, client *docker.Client, id string) {
	t.Helper()
	inspect, err := client.InspectContainer(rigContext(t), id)
	testutil.Must(t, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", inspect.State.Pid))
	testutil.Assert(t, err == nil && strings.Contains(string(status), "Groups:\t0 4242 \n"),
		"from outside the process is %v\n%s", err, status)
	testutil.Equal(t, runInside(t, client, id, "hostname; id -G"), "noted\r\n0 4242\r\n", "a command inside")
}

// runInside runs a script in a container and returns its output, with a terminal's line ends.
func runInside(t *testing.T, client *docker.Client, id, script string) string {
	t.Helper()
	output, err := runIn(t, client, id, "sh", "-c", script)
	testutil.Must(t, err)
	return output
}

func nodeNamespaces() *runtimeapi.NamespaceOption {
	const node = runtimeapi.NamespaceMode_NODE
	return &runtimeapi.NamespaceOption{Network: node, Ipc: node, Pid: runtimeapi.NamespaceMode_CONTAINER}
}

// TestRigDaemonJSONIsPreferredToTheShim gives an engine the runtime in daemon.json and the shim on PATH.
func TestRigDaemonJSONIsPreferredToTheShim(t *testing.T) {
	env := rigenv.Require(t)
	env.Registration = rigenv.RegistrationDaemonJSON
	r := awaitOCI(t, dialOCI(t, startWithShim(t, env, nil), docker.OCIRuntimeRequired), works).OCIRuntime
	testutil.Assert(t, r.Name == "criadapter", "the runtime is %+v", r)
}
