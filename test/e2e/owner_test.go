package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestTwoServersOnOneEngine runs a pod with one server and starts a second server beside it. The second server lists no
// pod of the first. It refuses a pod of the same name, and names the root directory of the pod's server. No log line is
// written twice.
func TestTwoServersOnOneEngine(t *testing.T) {
	env := rigenv.Require(t)
	ctx := t.Context()
	first := adapter.ForTest(t, adapter.Options{Env: env})
	image := env.Image("test/busybox:latest")
	pull(t, first, image)
	name := rigenv.Unique("owned")
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "e2e", Uid: name},
		LogDirectory: filepath.Join(first.Dir, "logs"),
		// The shared PID namespace gives the pod a sandbox container, whose name identifies the pod.
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{}},
		},
	}
	pod, err := first.Runtime.RunPodSandbox(ctx, config, "")
	testutil.Must(t, err)
	id := runContainer(t, first, pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
		Image:    &runtimeapi.ImageSpec{Image: image},
		Command:  []string{"echo", "once"},
		LogPath:  "c.log",
	}, config)
	logPath := filepath.Join(config.LogDirectory, "c.log")
	testutil.Eventually(t, func() error {
		response, err := first.Runtime.ContainerStatus(ctx, id, false)
		if err == nil && response.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			err = fmt.Errorf("the container is %v", response.GetStatus().GetState())
		}
		return err
	})
	// The log is empty, as after a rotation. A second follower of the container would write the line again.
	testutil.Must(t, os.Truncate(logPath, 0))

	second := adapter.ForTest(t, adapter.Options{Env: env})
	pods, err := second.Runtime.ListPodSandbox(ctx, nil)
	testutil.Must(t, err)
	containers, err := second.Runtime.ListContainers(ctx, nil)
	testutil.Must(t, err)
	testutil.Assert(t, len(pods)+len(containers) == 0,
		"the second server lists %d pods and %d containers of the first", len(pods), len(containers))
	_, err = second.Runtime.RunPodSandbox(ctx, config, "")
	testutil.Assert(t, status.Code(err) == codes.AlreadyExists && strings.Contains(err.Error(), first.RootDir),
		"a pod of the same name: %v, want AlreadyExists that names %s", err, first.RootDir)
	testutil.Must(t, second.Stop(ctx))
	said := second.LogTail()
	testutil.Assert(t, strings.Contains(said, "pods of other criadapters on this engine"),
		"the second server did not say that there are others' pods:\n%s", said)
	text, err := os.ReadFile(logPath)
	testutil.Assert(t, err == nil && len(text) == 0, "the first server's log has now %q, %v", text, err)
	_, err = first.Runtime.PodSandboxStatus(ctx, pod, false)
	testutil.Check(t, err, "the first server's pod")
	removeSandbox(t, first, pod)
}
