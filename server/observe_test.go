package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRequestsAreObserved(t *testing.T) {
	logged(t)
	n := nodeWithPod()
	var mu sync.Mutex
	var over []string
	n.opts.Observe = func(method string, code codes.Code, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		testutil.Assert(t, took > 0 && took <= time.Minute, "%s took %s", method, took)
		over = append(over, method+" "+code.String())
	}
	client := runtimeapi.NewRuntimeServiceClient(n.dial(t))
	_, _ = client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	_, _ = client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "unknown"})
	stream, err := client.StreamPodSandboxes(t.Context(), &runtimeapi.StreamPodSandboxesRequest{})
	testutil.Must(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	testutil.Require(t, errors.Is(err, io.EOF), "%v", err)
	n.services.before = func(context.Context) error { panic("in a service") }
	_, _ = client.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: podID})
	mu.Lock()
	defer mu.Unlock()
	want := []string{"ListContainers OK", "ContainerStatus NotFound", "StreamPodSandboxes OK",
		"StopPodSandbox Internal"}
	testutil.Assert(t, slices.Equal(over, want), "observed %q, want %q", over, want)
}

// TestPullsArePodsInTheLog checks that the log line of an image pull names its pod.
func TestPullsArePodsInTheLog(t *testing.T) {
	n := newNode()
	fields := n.describe(&runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: "busybox"},
		SandboxConfig: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default"}},
	})
	testutil.Assert(t, fields["pod"] == "default/web" && fields["image"] == "busybox", "the log says %v", fields)
	fields = n.describe(
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "busybox"}})
	testutil.Assert(t, fields["pod"] == nil, "the log line of a pull without a pod names a pod: %v", fields)
}

// Each RPC that changes something leaves one line at level info, with the names of the pod and the container. The other
// RPCs leave none.
func TestEachChangeIsOneLine(t *testing.T) {
	hook := logged(t)
	for _, r := range allRPCs(t) {
		n := nodeWithPod()
		hook.Reset()
		_ = r.call(t.Context(), n.dial(t), fullRequest(r)) // unimplemented RPCs are logged as well
		var lines []*logrus.Entry
		for _, entry := range hook.AllEntries() {
			if entry.Message == "CRI request" && entry.Data["rpc"] == r.name && entry.Level <= logrus.InfoLevel {
				lines = append(lines, entry)
			}
		}
		want := 0
		if changes[r.name] {
			want = 1
		}
		if len(lines) != want {
			t.Errorf("%s left %d lines, want %d", r.name, len(lines), want)
			continue
		}
		fields := r.request.Descriptor().Fields()
		for _, entry := range lines {
			if fields.ByName("container_id") != nil &&
				(entry.Data["container"] != "main" || entry.Data["pod"] != "default/web") {
				t.Errorf("%s: the names are missing in %v", r.name, entry.Data)
			}
			if fields.ByName("pod_sandbox_id") != nil && entry.Data["pod"] != "default/web" {
				t.Errorf("%s: the pod's name is missing in %v", r.name, entry.Data)
			}
		}
	}
}
