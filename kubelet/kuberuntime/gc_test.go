package kuberuntime

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

func TestCollect(t *testing.T) {
	b := newBench(t)
	c := &Collector{Runtime: b.runtime, PodLogsDir: b.dir, Keep: 1}
	pod, gone := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a")), pulled(
		modeltest.Pod(v1.RestartPolicyAlways, "app:a"))
	gone.UID, gone.Name = "gone", "gone"
	for _, p := range []*v1.Pod{pod, gone} {
		for range 2 {
			b.sync(p, Probes{})
			b.exit(p, "a", 1)
		}
	}
	b.crashes.Forget(func(string) bool { return true })
	b.sync(pod, Probes{})
	testutil.Must(t, b.runtime.StopPodSandbox(t.Context(), b.status(gone).Sandboxes[0].ID))
	theirs := filepath.Join(b.dir, "ns_theirs_uid")
	testutil.Must(t, os.MkdirAll(theirs, 0o755))
	exists := func(uid types.UID) bool { return uid == pod.UID }
	for range 2 { // the second round removes the logs of pods that the first removed
		testutil.Must(t, c.Collect(t.Context(), exists))
	}
	left := b.status(pod)
	testutil.Assert(t, len(left.Containers) == 2 && left.Containers[0].State == model.StateRunning &&
		len(left.Sandboxes) == 1, "the existing pod has %+v", left)
	left = b.status(gone)
	testutil.Assert(t, len(left.Containers)+len(left.Sandboxes) == 0, "the pod that is gone still has %+v", left)
	for path, want := range map[string]bool{theirs: true, model.PodLogDirectory(b.dir, pod): true,
		model.PodLogDirectory(b.dir, gone): false} {
		_, err := os.Stat(path)
		testutil.Assert(t, (err == nil) == want, "%s: %v, the path should exist: %v", path, err, want)
	}
}

// TestDeadSandboxIsStopped: a dead sandbox is stopped before the next one is created, and before it is removed.
func TestDeadSandboxIsStopped(t *testing.T) {
	b, pod := started(t, "app:a")
	first := b.status(pod).Sandboxes[0].ID
	b.fake.Lock()
	b.fake.Sandboxes[first].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	b.fake.Unlock()
	b.exit(pod, "a", 137)
	b.fake.sandboxes = nil
	b.sync(pod, Probes{})
	second := b.status(pod).Sandboxes[0].ID
	want := []string{"stop " + first, "run " + second}
	testutil.Assert(t, second != first && slices.Equal(b.fake.sandboxes, want), "%q, want %q", b.fake.sandboxes, want)
	testutil.Equal(t, b.message("SandboxChanged"), "Pod sandbox changed, it will be killed and re-created.", "event")
	b.fake.sandboxes = nil
	c := &Collector{Runtime: b.runtime, PodLogsDir: b.dir}
	for range 2 { // the first round removes its container
		testutil.Must(t, c.Collect(t.Context(), func(types.UID) bool { return true }))
	}
	want = []string{"stop " + first, "remove " + first}
	testutil.Assert(t, slices.Equal(b.fake.sandboxes, want), "collected: %q, want %q", b.fake.sandboxes, want)
}

// TestGoneSandboxIsRemoved: a sandbox that another client removes meanwhile counts as removed.
func TestGoneSandboxIsRemoved(t *testing.T) {
	b, pod := started(t, "app:a")
	id := b.status(pod).Sandboxes[0].ID
	for _, call := range []string{"StopPodSandbox", "RemovePodSandbox"} {
		b.fake.InjectError(call, status.Error(codes.NotFound, "no such sandbox"))
	}
	testutil.Must(t, removeSandbox(t.Context(), b.runtime, id))
	b.fake.InjectError("RemovePodSandbox", status.Error(codes.Unavailable, "away"))
	testutil.Fails(t, removeSandbox(t.Context(), b.runtime, id), func(err error) bool {
		return status.Code(err) == codes.Unavailable
	}, "removal without a runtime")
}

func TestTidyLogs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	for name, text := range map[string]string{
		"": "now", ".20260101-000000.gz": "1", ".20260102-000000": "2", ".20260102-000000.gz": "compressed already",
		".20260103-000000": "3",
		".20260104-000000": "4", ".20260105-000000.tmp": "half",
	} {
		testutil.Must(t, os.WriteFile(log+name, []byte(text), 0o644))
	}
	r := &Rotator{MaxSize: 1, MaxFiles: 4}
	testutil.Must(t, r.tidy(log))
	files, err := filepath.Glob(log + "*")
	testutil.Must(t, err)
	for i := range files {
		files[i] = strings.TrimPrefix(files[i], log)
	}
	want := []string{"", ".20260103-000000.gz", ".20260104-000000.gz"}
	testutil.Assert(t, slices.Equal(files, want), "files %q, want %q", files, want)
}

func TestCompressedLogsKeepTheirMode(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	testutil.Must(t, os.WriteFile(log+".20260101-000000", []byte("secret"), 0o640))
	testutil.Must(t, (&Rotator{MaxFiles: 3}).tidy(log))
	info, err := os.Stat(log + ".20260101-000000.gz")
	testutil.Must(t, err)
	testutil.Assert(t, info.Mode() == 0o640, "mode %s, want 0640", info.Mode())
}
