package cri

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

func TestTerminationMessage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		testutil.Must(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	log := write("log", "2026-01-01T00:00:00Z stdout F one\nhalf a line\n2026-01-01T00:00:00Z stderr F two words\n")
	status := func(code int32, policy, message string) *runtimeapi.ContainerStatus {
		return &runtimeapi.ContainerStatus{
			State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: code, LogPath: log, Message: "the runtime's",
			Annotations: map[string]string{model.AnnotationTerminationMessagePath: "/dev/log",
				model.AnnotationTerminationMessagePolicy: policy},
			Mounts: []*runtimeapi.Mount{{ContainerPath: "/other", HostPath: log},
				{ContainerPath: "/dev/log", HostPath: message}},
		}
	}
	left, empty, long := write("left", "it left this"), write("empty", ""), write("long",
		strings.Repeat("x", maxMessage)+"end")
	for _, test := range []struct {
		name   string
		status *runtimeapi.ContainerStatus
		want   string
	}{
		{"left", status(1, "File", left), "it left this"},
		{"nothing left", status(1, "File", empty), "the runtime's"},
		{"from the log", status(1, "FallbackToLogsOnError", empty), "one\ntwo words\n"},
		{"ended well", status(0, "FallbackToLogsOnError", empty), "the runtime's"},
		{"left and a log", status(1, "FallbackToLogsOnError", left), "it left this"},
		{"a directory", status(1, "File", dir), "the runtime's"},
		{"no file", status(1, "File", filepath.Join(dir, "none")), "the runtime's"},
	} {
		testutil.Equal(t, containerStatus(t.Context(), "s", test.status).Message, test.want, "%s", test.name)
	}
	got := containerStatus(t.Context(), "s", status(1, "File", long)).Message
	testutil.Assert(t, len(got) == maxMessage && strings.HasSuffix(got, "end"), "a long message has %d bytes", len(got))
}

// TestTerminationMessageIsNotAPipe: reading a pipe does not block.
func TestTerminationMessageIsNotAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	testutil.Must(t, unix.Mkfifo(pipe, 0o666))
	testutil.Equal(t, tail(pipe, maxMessage), "", "read")
}

// TestLogEnd: an unfinished line has no newline, and the length is bounded.
func TestLogEnd(t *testing.T) {
	const stamp = "2026-01-01T00:00:00Z stdout "
	path, long := filepath.Join(t.TempDir(), "log"), strings.Repeat("x", maxLogBytes/2)
	for _, test := range []struct{ name, log, want string }{
		{"nothing", "", ""},
		{"an unfinished line", stamp + "F one\n" + stamp + "P DONE\n", "one\nDONE"},
		{"pieces of a line", stamp + "P o\n" + stamp + "P n\n" + stamp + "F e\n", "one\n"},
		{"Docker's format", `{"log":"two words\n","stream":"stderr","time":"2026-01-01T00:00:00Z"}` + "\n",
			"two words\n"},
		{"no log", "\n\n   \n", ""},
		{"many lines", strings.Repeat(stamp+"F x\n", maxLogLines+1), strings.Repeat("x\n", maxLogLines)},
		{"long lines", strings.Repeat(stamp+"F "+long+"\n", 3), long[:maxLogBytes/2-2] + "\n" + long + "\n"},
	} {
		testutil.Must(t, os.WriteFile(path, []byte(test.log), 0o644))
		testutil.Equal(t, logEnd(t.Context(), path), test.want, "%s", test.name)
	}
	testutil.Equal(t, logEnd(t.Context(), filepath.Join(t.TempDir(), "none")), "", "without a log")
}

// vanishing lists a container, but returns NotFound for its status.
type vanishing struct {
	*apitest.FakeRuntimeService
}

func (v vanishing) ContainerStatus(
	ctx context.Context, id string, verbose bool,
) (*runtimeapi.ContainerStatusResponse, error) {
	if strings.Contains(id, "vanished") {
		return nil, status.Error(codes.NotFound, "gone")
	}
	return v.FakeRuntimeService.ContainerStatus(ctx, id, verbose)
}

// add creates a sandbox of a pod, with containers. It returns their ids.
func add(
	t *testing.T, r *Runtime, uid, owner string, attempt uint32, containers ...string,
) (sandbox string, ids []string) {
	t.Helper()
	labels := map[string]string{
		model.LabelOwner: owner, model.LabelPodUID: uid, model.LabelPodName: "pod", model.LabelPodNamespace: "ns",
	}
	sandbox, err := r.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "ns", Uid: uid, Attempt: attempt},
		Labels:   labels,
	}, "")
	testutil.Must(t, err)
	for _, name := range containers {
		time.Sleep(time.Millisecond) // the order is by time
		id, err := r.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}, Labels: labels,
			Image: &runtimeapi.ImageSpec{Image: "i", UserSpecifiedImage: "name"},
		}, nil)
		testutil.Must(t, err)
		ids = append(ids, id)
	}
	return sandbox, ids
}

func TestPodStatus(t *testing.T) {
	fake := vanishing{apitest.NewFakeRuntimeService()}
	r := New(fake, nil, "us")
	add(t, r, "a", "us", 0, "one", "vanished")
	time.Sleep(time.Millisecond)
	add(t, r, "a", "us", 1, "one")
	add(t, r, "b", "us", 0)
	add(t, r, "c", "them", 0, "theirs")

	pods, err := r.Pods(t.Context())
	testutil.Assert(t, err == nil && len(pods) == 2 && len(pods["a"].Containers) == 3 && pods["b"].Running(),
		"%v, %v", pods, err)
	seen, err := r.PodStatus(t.Context(), "a")
	testutil.Assert(t, err == nil && len(seen.Sandboxes) == 2 && seen.Sandboxes[0].Attempt == 1 &&
		len(seen.Containers) == 2 && seen.Containers[0].Attempt == 1 && seen.Containers[0].Image == "name" &&
		seen.Name == "pod" && len(seen.IPs()) != 0, "%+v, %v", seen, err)
	if none, err := r.PodStatus(t.Context(), "c"); err != nil || len(none.Sandboxes)+len(none.Containers) != 0 {
		t.Errorf("another owner's pod: %+v, %v", none, err)
	}
	fake.InjectError("ListContainers", status.Error(codes.Unavailable, "away"))
	_, err = r.PodStatus(t.Context(), "a")
	testutil.Assert(t, status.Code(err) == codes.Unavailable, "error %v", err)
}

// TestNewestIsTheLastAttempt: the last attempt is the newest, even if the clock was set back before its creation.
func TestNewestIsTheLastAttempt(t *testing.T) {
	fake := apitest.NewFakeRuntimeService()
	r := New(fake, nil, "us")
	for attempt, created := range []time.Time{time.Now(), time.Now().Add(-time.Hour)} {
		sandbox, ids := add(t, r, "a", "us", uint32(attempt), "one")
		fake.Sandboxes[sandbox].CreatedAt, fake.Containers[ids[0]].CreatedAt = created.UnixNano(), created.UnixNano()
	}
	seen, err := r.PodStatus(t.Context(), "a")
	testutil.Assert(t, err == nil && seen.Sandboxes[0].Attempt == 1 && seen.Container("one").Attempt == 1,
		"%+v, %v", seen, err)
}

// TestContainerStatus converts fields that only some runtimes report.
func TestContainerStatus(t *testing.T) {
	got := containerStatus(t.Context(), "sandbox", &runtimeapi.ContainerStatus{
		User: &runtimeapi.ContainerUser{
			Linux: &runtimeapi.LinuxContainerUser{Uid: 5, Gid: 6, SupplementalGroups: []int64{6, 7}}},
		StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		Mounts: []*runtimeapi.Mount{
			{ContainerPath: "/a", RecursiveReadOnly: true},
			{ContainerPath: "/b", Image: &runtimeapi.ImageSpec{ImageRef: "x@sha256:1"}},
		},
	})
	user := got.User.Linux
	testutil.Assert(t, user.UID == 5 && user.GID == 6 && len(user.SupplementalGroups) == 2, "user %+v", user)
	testutil.Equal(t, string(*got.StopSignal), "SIGRTMIN+3", "stop signal")
	testutil.Assert(t, got.Mounts["/a"] == (model.Mount{RecursiveReadOnly: true}) &&
		got.Mounts["/b"] == (model.Mount{ImageRef: "x@sha256:1"}), "mounts %+v", got.Mounts)
	got = containerStatus(t.Context(), "sandbox", &runtimeapi.ContainerStatus{})
	testutil.Assert(t, got.User == nil && got.StopSignal == nil, "a user or a signal is made up: %+v", got)
}
