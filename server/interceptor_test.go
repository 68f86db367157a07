package server

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// logged collects the log of a test at all levels. Tests that use it must not run in parallel.
func logged(t *testing.T) *logtest.Hook {
	t.Helper()
	logger := logrus.StandardLogger()
	level, hooks := logger.GetLevel(), logger.ReplaceHooks(logrus.LevelHooks{})
	hook := logtest.NewGlobal()
	logger.SetLevel(logrus.TraceLevel)
	t.Cleanup(func() {
		logger.SetLevel(level)
		logger.ReplaceHooks(hooks)
	})
	return hook
}

func TestPanicBecomesInternal(t *testing.T) {
	hook := logged(t)
	n := nodeWithPod()
	n.services.before = func(context.Context) error { panic("a secret detail") }
	client := runtimeapi.NewRuntimeServiceClient(n.dial(t))
	_, err := client.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: podID})
	testutil.Assert(t, status.Code(err) == codes.Internal && !strings.Contains(err.Error(), "secret"),
		"got %v, want Internal without the cause", err)
	var stack string
	for _, entry := range hook.AllEntries() {
		if text, ok := entry.Data["stack"].(string); ok && entry.Data["panic"] == "a secret detail" {
			stack = text
		}
	}
	testutil.Assert(t, strings.Contains(stack, "StopPodSandbox"), "the log has no stack of the panic: %q", stack)
	n.services.before = nil
	_, err = client.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: podID})
	testutil.Check(t, err, "a request after the panic")
}

// explodingCache embeds a nil cache, so a call to Snapshot panics.
type explodingCache struct{ *cache }

func TestPanicInAStreamBecomesInternal(t *testing.T) {
	logged(t)
	n := newNode()
	n.opts.Cache = explodingCache{}
	stream, err := runtimeapi.NewRuntimeServiceClient(n.dial(t)).StreamContainers(t.Context(),
		&runtimeapi.StreamContainersRequest{})
	testutil.Must(t, err)
	_, err = stream.Recv()
	testutil.Assert(t, status.Code(err) == codes.Internal, "got %v, want Internal", err)
}

// brokenCache panics in Snapshot once it is broken.
type brokenCache struct {
	*cache
	broken atomic.Bool
}

func (c *brokenCache) Snapshot() *state.Snapshot {
	if c.broken.Load() {
		panic("a defect")
	}
	return c.cache.Snapshot()
}

// A panic while the server describes an event ends only that stream.
func TestPanicInAnEventBecomesInternal(t *testing.T) {
	logged(t)
	n := newNode()
	defective := &brokenCache{cache: n.cache}
	n.opts.Cache = defective
	stream := subscribe(t.Context(), t, n.dial(t))
	defective.broken.Store(true)
	n.cache.PutPod(state.Pod{ID: podID})
	_, err := stream.Recv()
	testutil.Assert(t, status.Code(err) == codes.Internal, "got %v, want Internal", err)
}

func TestLogHasNamesAndNoSecrets(t *testing.T) {
	hook := logged(t)
	n := nodeWithPod()
	conn := n.dial(t)
	runtime, images := runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
	auth := base64.StdEncoding.EncodeToString([]byte("user:$ecret"))
	_, err := images.PullImage(t.Context(), &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: "busybox"},
		Auth: &runtimeapi.AuthConfig{Username: "u", Password: "$ecret", Auth: auth, IdentityToken: "$ecret",
			RegistryToken: "$ecret"},
	})
	testutil.Must(t, err)
	created, err := runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: podID,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "side"},
			Image:    &runtimeapi.ImageSpec{Image: "busybox"},
			Command:  []string{"sh", "-c", "$ecret"},
			Envs:     []*runtimeapi.KeyValue{{Key: "PASSWORD", Value: []byte("$ecret")}},
		},
	})
	testutil.Must(t, err)
	_, err = runtime.ExecSync(t.Context(),
		&runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: []string{"$ecret"}})
	testutil.Must(t, err)
	_, err = runtime.RemoveContainer(t.Context(),
		&runtimeapi.RemoveContainerRequest{ContainerId: created.GetContainerId()})
	testutil.Must(t, err)
	lines := map[string]*logrus.Entry{}
	for _, entry := range hook.AllEntries() {
		line, err := entry.String()
		testutil.Must(t, err)
		testutil.Assert(t, !strings.Contains(line, "ecret") && !strings.Contains(line, auth),
			"the log has a secret: %s", line)
		if name, ok := entry.Data["rpc"].(string); ok {
			lines[name] = entry
		}
	}
	checkLine(t, lines["PullImage"], logrus.InfoLevel, logrus.Fields{"image": "busybox", "imageID": "busybox"})
	checkLine(t, lines["CreateContainer"], logrus.InfoLevel, logrus.Fields{
		"pod": "default/web", "container": "side", "podSandboxID": podID, "containerID": created.GetContainerId(),
	})
	checkLine(t, lines["ExecSync"], logrus.DebugLevel, logrus.Fields{"container": "main", "pod": "default/web"})
	checkLine(t, lines["RemoveContainer"], logrus.InfoLevel, logrus.Fields{"container": "side", "pod": "default/web"})
}

func checkLine(t *testing.T, entry *logrus.Entry, level logrus.Level, fields logrus.Fields) {
	t.Helper()
	if entry == nil {
		t.Error("a request left no line in the log")
		return
	}
	testutil.Assert(t, entry.Level == level, "%v is logged at %s, want %s", entry.Data["rpc"], entry.Level, level)
	for key, want := range fields {
		testutil.Assert(t, entry.Data[key] == want,
			"%v: %s is %v, want %v", entry.Data["rpc"], key, entry.Data[key], want)
	}
	_, ok := entry.Data["duration"].(time.Duration)
	testutil.Assert(t, ok, "%v: no duration", entry.Data["rpc"])
}

func TestLogLevels(t *testing.T) {
	for _, test := range []struct {
		method string
		err    error
		want   logrus.Level
	}{
		{"ListContainers", nil, logrus.DebugLevel},
		{"ListContainers", status.Error(codes.Unavailable, ""), logrus.DebugLevel},
		{"ListContainers", status.Error(codes.Internal, ""), logrus.ErrorLevel},
		{"RunPodSandbox", nil, logrus.InfoLevel},
		{"RunPodSandbox", status.Error(codes.Canceled, ""), logrus.InfoLevel},
		{"RunPodSandbox", status.Error(codes.Unavailable, ""), logrus.WarnLevel},
	} {
		testutil.Equal(t, (&call{method: test.method}).level(test.err), test.want, "%s with %v", test.method, test.err)
	}
}

// The names in the table of changes are RPCs of the API.
func TestChangesAreRPCs(t *testing.T) {
	known := map[string]bool{}
	for _, r := range allRPCs(t) {
		known[r.name] = true
	}
	for name := range changes {
		testutil.Assert(t, known[name], "%s is no RPC", name)
	}
}

func TestRequestsWithoutDeadlineAreBounded(t *testing.T) {
	n := newNode()
	n.opts.RequestTimeout = 10 * time.Second
	for _, test := range []struct {
		name    string
		request any
		want    time.Duration // 0 for no bound
	}{
		{"list", &runtimeapi.ListContainersRequest{}, 10 * time.Second},
		{"run", &runtimeapi.RunPodSandboxRequest{}, 10 * time.Second},
		{"pull", &runtimeapi.PullImageRequest{}, 0},
		{"stop", &runtimeapi.StopContainerRequest{Timeout: 30}, 40 * time.Second},
		{"stop now", &runtimeapi.StopContainerRequest{}, 10 * time.Second},
		{"stop with a negative timeout", &runtimeapi.StopContainerRequest{Timeout: -30}, 10 * time.Second},
		{"stop with an endless timeout", &runtimeapi.StopContainerRequest{Timeout: 1 << 62}, 10 * time.Second},
		{"exec", &runtimeapi.ExecSyncRequest{Timeout: 5}, 15 * time.Second},
		{"exec for ever", &runtimeapi.ExecSyncRequest{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := n.bound(t.Context(), test.request)
			defer cancel()
			deadline, bounded := ctx.Deadline()
			testutil.Require(t, bounded == (test.want != 0), "bounded is %t", bounded)
			if left := time.Until(deadline); bounded && (left > test.want || left < test.want-5*time.Second) {
				t.Errorf("%s left, want %s", left, test.want)
			}
		})
	}
}

func TestClientsDeadlineCounts(t *testing.T) {
	n := newNode()
	n.opts.RequestTimeout = time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	bounded, stop := n.bound(ctx, &runtimeapi.ListContainersRequest{})
	defer stop()
	deadline, _ := bounded.Deadline()
	testutil.Assert(t, time.Until(deadline) >= time.Minute, "a client's longer deadline was cut")
}

func TestHangingRequestEndsAtTheRequestTimeout(t *testing.T) {
	logged(t)
	n := nodeWithPod()
	n.opts.RequestTimeout = 20 * time.Millisecond
	n.services.before = func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(errors.New("the engine hangs"), ctx.Err())
	}
	_, err := runtimeapi.NewRuntimeServiceClient(n.dial(t)).StartContainer(t.Context(),
		&runtimeapi.StartContainerRequest{ContainerId: containerID})
	testutil.Assert(t, status.Code(err) == codes.DeadlineExceeded, "got %v, want DeadlineExceeded", err)
}

// A request whose log level is disabled gets no logger. The interceptor then allocates only its call.
func TestAnswersFromMemoryPayForNoLogger(t *testing.T) {
	n, podID, _ := crowdedNode(10)
	ctx, req := t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: podID}
	allocations := testing.AllocsPerRun(100, func() {
		c := n.begin("/runtime.v1.RuntimeService/PodSandboxStatus")
		testutil.Assert(t, n.withLogger(ctx, c, req) == ctx, "the context has a logger")
		c.end(nil, nil)
	})
	testutil.Assert(t, allocations <= 1, "%v allocations, want one for the call", allocations)
}

func BenchmarkInterceptor(b *testing.B) {
	n, podID, _ := crowdedNode(1000)
	for method, req := range map[string]any{
		"PodSandboxStatus": &runtimeapi.PodSandboxStatusRequest{PodSandboxId: podID}, // from memory
		"PodSandboxStats":  &runtimeapi.PodSandboxStatsRequest{PodSandboxId: podID},  // with a logger
	} {
		b.Run(method, func(b *testing.B) {
			info := &grpc.UnaryServerInfo{FullMethod: "/runtime.v1.RuntimeService/" + method}
			b.ReportAllocs()
			for b.Loop() {
				_, err := n.unaryInterceptor(b.Context(), req, info, func(context.Context, any) (any, error) {
					return nil, nil
				})
				testutil.Must(b, err)
			}
		})
	}
}
