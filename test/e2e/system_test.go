package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/installed"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestSystemMakeRun does what `make run ONCE=1` does, on the installed engine.
func TestSystemMakeRun(t *testing.T) {
	env := rigenv.RequireSystem(t)
	program := filepath.Join(t.TempDir(), "run")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./test/run")
	build.Dir = filepath.Join("..", "..")
	output, err := build.CombinedOutput()
	testutil.Require(t, err == nil, "%v\n%s", err, output)
	run := exec.CommandContext(t.Context(), program, "-once", "-server", env.Criadapter, "-docker", env.DockerHost)
	run.Dir = build.Dir
	output, err = run.CombinedOutput()
	testutil.Require(t, err == nil, "%v\n%s", err, output)
	for _, want := range []string{
		"SANDBOX_READY  address 10.", "CONTAINER_RUNNING  hello", "answers: hello from hello",
		"Z stdout F hello stdout 1", "is removed",
	} {
		testutil.Assert(t, strings.Contains(string(output), want), "the output lacks %q", want)
	}
	if t.Failed() {
		t.Logf("output:\n%s", output)
	}
}

// TestSystemOOMScore starts a pod whose OOM scores plain runc cannot set on a machine without CAP_SYS_RESOURCE. On such
// a machine the scores are clamped, and Status says so.
func TestSystemOOMScore(t *testing.T) {
	env := rigenv.RequireSystem(t)
	server := adapter.ForTest(t, adapter.Options{Env: env})
	testutil.Eventually(t, func() error { return ready(t, server) })
	podConfig := sandboxConfig("oom-score")
	sandbox := runSandbox(t, server, podConfig)

	image, err := server.Images.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: pause.Reference}, false)
	testutil.Must(t, err)
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "guaranteed"},
		Image:    &runtimeapi.ImageSpec{Image: image.GetImage().GetId()},
		Linux:    &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{OomScoreAdj: -997}},
	}
	id := runContainer(t, server, sandbox, config, podConfig)
	container, err := server.Runtime.ContainerStatus(t.Context(), id, true)
	testutil.Must(t, err)
	pod, err := server.Runtime.PodSandboxStatus(t.Context(), sandbox, true)
	testutil.Must(t, err)
	wantContainer, wantSandbox := -997, -998
	if !env.NegativeOOM {
		wantContainer, wantSandbox = 0, 0
	}
	same(t, "the container's oom_score_adj", oomScore(t, container.GetInfo()), wantContainer)
	same(t, "the sandbox's oom_score_adj", oomScore(t, pod.GetInfo()), wantSandbox)

	answer, err := server.Runtime.Status(t.Context(), true)
	testutil.Must(t, err)
	said := strings.Contains(fmt.Sprint(answer.GetInfo()), "oom_score_adj")
	same(t, "a verbose Status reports the clamp", said, !env.NegativeOOM)
}

// oomScore reads the score of the process in a verbose status.
func oomScore(t *testing.T, info map[string]string) int {
	t.Helper()
	raw := testutil.ReadFile(t, fmt.Sprintf("/proc/%d/oom_score_adj", processOf(t, info)))
	score, err := strconv.Atoi(strings.TrimSpace(raw))
	testutil.Must(t, err)
	return score
}

// TestSystemBridgeNetwork runs a pod on Docker's default bridge, without CNI.
func TestSystemBridgeNetwork(t *testing.T) {
	env := rigenv.RequireSystem(t)
	_, err := installed.DataRoot(t.Context(), env.DockerHost)
	testutil.Must(t, err)
	server := adapter.ForTest(t, adapter.Options{Env: env, Flags: []string{"--network-plugin=bridge"}})
	testutil.Eventually(t, func() error { return ready(t, server) })
	config := sandboxConfig("bridge")
	port := testutil.FreePort(t)
	config.PortMappings = []*runtimeapi.PortMapping{{ContainerPort: 8080, HostPort: int32(port), HostIp: "127.0.0.1"}}
	id := runSandbox(t, server, config)
	status, err := server.Runtime.PodSandboxStatus(t.Context(), id, false)
	testutil.Must(t, err)
	ip := status.GetStatus().GetNetwork().GetIp()
	testutil.Check(t, adapter.Answers(ip))
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Errorf("the host port is not published: %v", err)
		return
	}
	conn.Close()
}

// pull pulls an image and returns its id.
func pull(t *testing.T, server *adapter.Server, image string) string {
	t.Helper()
	id, err := server.Images.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: image}, nil, nil)
	testutil.Must(t, err)
	return id
}

// runContainer creates and starts a container of a pod.
func runContainer(
	t *testing.T, server *adapter.Server, pod string, config *runtimeapi.ContainerConfig,
	podConfig *runtimeapi.PodSandboxConfig,
) string {
	t.Helper()
	id, err := server.Runtime.CreateContainer(t.Context(), pod, config, podConfig)
	testutil.Must(t, err)
	testutil.Must(t, server.Runtime.StartContainer(t.Context(), id))
	return id
}

// runSandbox runs a pod and removes it with the test.
func runSandbox(t *testing.T, server *adapter.Server, config *runtimeapi.PodSandboxConfig) string {
	t.Helper()
	id, err := server.Runtime.RunPodSandbox(t.Context(), config, "")
	testutil.Must(t, err)
	t.Cleanup(func() { removeSandbox(t, server, id) })
	return id
}
