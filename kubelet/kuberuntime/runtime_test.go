package kuberuntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/podspec"
)

// fake is a runtime in memory. StopContainer takes the time that stops returns. noted has the calls.
type fake struct {
	*apitest.FakeRuntimeService
	stops func(id string) time.Duration

	mu    sync.Mutex
	began time.Time
	noted []string
	// sandboxes are the calls for sandboxes.
	sandboxes []string
	// limits are the actual limits of all containers; nil reports none.
	limits *runtimeapi.LinuxContainerResources
	// unstoppable is the error of StopContainer.
	unstoppable error
	// ip is the address of all sandboxes. Empty means the library's address.
	ip string
}

func newFake() *fake {
	return &fake{FakeRuntimeService: apitest.NewFakeRuntimeService(), stops: func(string) time.Duration {
		return 0
	}, began: time.Now()}
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noted = append(f.noted, fmt.Sprintf("%v ", time.Since(f.began).Round(time.Second))+fmt.Sprintf(format, args...))
}

func (f *fake) noteSandbox(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sandboxes = append(f.sandboxes, what)
}

func (f *fake) StopContainer(ctx context.Context, id string, timeout int64) error {
	f.note("stop %s %d", name(id), timeout)
	time.Sleep(f.stops(name(id)))
	if f.unstoppable != nil {
		return f.unstoppable
	}
	return f.FakeRuntimeService.StopContainer(ctx, id, timeout)
}

func (f *fake) ContainerStatus(
	ctx context.Context, id string, verbose bool,
) (*runtimeapi.ContainerStatusResponse, error) {
	answer, err := f.FakeRuntimeService.ContainerStatus(ctx, id, verbose)
	if err == nil && f.limits != nil {
		answer.Status.Resources = &runtimeapi.ContainerResources{Linux: f.limits}
	}
	return answer, err
}

func (f *fake) PodSandboxStatus(
	ctx context.Context, id string, verbose bool,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	answer, err := f.FakeRuntimeService.PodSandboxStatus(ctx, id, verbose)
	if err == nil && f.ip != "" {
		answer.Status.Network.Ip = f.ip
	}
	return answer, err
}

func (f *fake) StopPodSandbox(ctx context.Context, id string) error {
	f.noteSandbox("stop " + id)
	return f.FakeRuntimeService.StopPodSandbox(ctx, id)
}

func (f *fake) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	id, err := f.FakeRuntimeService.RunPodSandbox(ctx, config, handler)
	f.noteSandbox("run " + id)
	return id, err
}

func (f *fake) RemovePodSandbox(ctx context.Context, id string) error {
	f.noteSandbox("remove " + id)
	return f.FakeRuntimeService.RemovePodSandbox(ctx, id)
}

func (f *fake) ExecSync(
	ctx context.Context, id string, cmd []string, timeout time.Duration,
) (stdout, stderr []byte, err error) {
	f.note("exec %s %v", name(id), cmd)
	if cmd[0] == "forever" {
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		<-ctx.Done()
		f.note("exec of %s ended", name(id))
		return nil, nil, ctx.Err()
	}
	time.Sleep(3 * time.Second)
	if cmd[0] == "fail" {
		return nil, []byte("no luck"), errors.New("exit code 1")
	}
	return nil, nil, nil
}

// name is the container's name in the fake's ids.
func name(id string) string {
	parts := strings.Split(id, "_")
	return parts[len(parts)-2]
}

// specs makes minimal configurations.
type specs struct{ dir string }

func (s specs) Sandbox(_ context.Context, pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID),
			Attempt: attempt},
		LogDirectory: model.PodLogDirectory(s.dir, pod), Labels: s.labels(pod, ""),
	}, nil
}

func (s specs) labels(pod *v1.Pod, container string) map[string]string {
	return map[string]string{
		model.LabelPodUID: string(pod.UID), model.LabelPodName: pod.Name, model.LabelPodNamespace: pod.Namespace,
		model.LabelContainerName: container, model.LabelOwner: "us",
	}
}

func (s specs) Container(_ context.Context, in podspec.ContainerInput) (*runtimeapi.ContainerConfig, error) {
	if len(in.Container.Args) > 0 {
		return nil, errors.New("configmap x: not found")
	}
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: in.Container.Name, Attempt: in.Attempt},
		Image:    &runtimeapi.ImageSpec{Image: in.ImageID}, Labels: s.labels(in.Pod, in.Container.Name),
		Annotations: map[string]string{model.AnnotationHash: model.ContainerHash(in.Container)},
	}, nil
}

func (s specs) Resources(_ *v1.Pod, c *v1.Container, _ v1.ResourceRequirements) *runtimeapi.LinuxContainerResources {
	return &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: c.Resources.Limits.Memory().Value()}
}

func (s specs) PodResources(pod *v1.Pod) (overhead, resources *runtimeapi.LinuxContainerResources) {
	totals := model.PodTotals(pod)
	return nil, &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: totals.Limits.Memory().Value()}
}

// bench is a manager on a fake runtime.
type bench struct {
	t *testing.T
	*Manager
	fake    *fake
	runtime *cri.Runtime
	events  *events.Recorder
	dir     string
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, fake: newFake(), events: events.New("n"), dir: t.TempDir()}
	imageService := apitest.NewFakeImageService()
	imageService.SetFakeImages([]string{"image"})
	b.runtime = cri.New(b.fake, imageService, "us")
	allocated, err := allocation.Open(filepath.Join(b.dir, "allocated"))
	testutil.Must(t, err)
	b.Manager = New(Options{
		Allocation: allocated,
		Runtime:    b.runtime, Specs: specs{b.dir}, Events: b.events,
		Images: imagemanager.New(imagemanager.Options{Service: imagemanager.NewImages(imageService)}),
	})
	return b
}

func (b *bench) sync(pod *v1.Pod, probes Probes) Result {
	b.t.Helper()
	result, err := b.SyncPod(b.t.Context(), pod, b.status(pod), probes)
	testutil.Must(b.t, err)
	return result
}

func (b *bench) status(pod *v1.Pod) *model.PodStatus {
	b.t.Helper()
	status, err := b.runtime.PodStatus(b.t.Context(), pod.UID)
	testutil.Must(b.t, err)
	return status
}

func (b *bench) running(pod *v1.Pod) string {
	var names []string
	for _, c := range b.status(pod).Containers {
		if c.State == model.StateRunning {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// exit ends a container.
func (b *bench) exit(pod *v1.Pod, container string, code int32) {
	id := b.status(pod).Container(container).ID
	b.fake.Lock()
	defer b.fake.Unlock()
	c := b.fake.Containers[id]
	c.State, c.ExitCode, c.FinishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, code, time.Now().UnixNano()
}

// pulled makes a pod's containers use the existing image.
func pulled(pod *v1.Pod) *v1.Pod {
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) { c.ImagePullPolicy = v1.PullNever })
	return pod
}

// started is a bench with a pod that was synced once.
func started(t *testing.T, containers ...string) (*bench, *v1.Pod) {
	t.Helper()
	b := newBench(t)
	pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, containers...))
	b.sync(pod, Probes{})
	return b, pod
}

func TestSyncStartsInOrder(t *testing.T) {
	b := newBench(t)
	pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "init:i", "side:s", "app:a", "app:b"))
	for _, want := range []string{"i", "s", "a b s", "a b s"} {
		b.sync(pod, Probes{Started: map[string]bool{}})
		testutil.Equal(t, b.running(pod), want, "running")
		if want == "i" {
			b.exit(pod, "i", 0)
		}
	}
}

func TestSyncCrashBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, pod := started(t, "app:a")
		for _, pause := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
			b.exit(pod, "a", 1)
			result := b.sync(pod, Probes{})
			if pause == 0 {
				continue
			}
			reason := result.Waiting["a"]
			testutil.Assert(t, reason != nil && reason.Reason == model.ReasonCrashLoopBackOff &&
				result.Again == pause && b.running(pod) == "", "after a crash: %+v, want a pause of %v", result, pause)
			in := fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
			testutil.Equal(t, reason.Err.Error(),
				fmt.Sprintf("back-off %v restarting failed container=a pod=%s", pause, in), "reason")
			said := slices.ContainsFunc(b.events.List(), func(event v1.Event) bool {
				return event.Message == "Back-off restarting failed container a in pod "+in
			})
			testutil.Assert(t, said, "events %+v", b.events.List())
			time.Sleep(pause)
			b.sync(pod, Probes{})
			testutil.Assert(t, b.running(pod) == "a", "not started after %v", pause)
		}
	})
}

// TestLivenessBackoff: a container that always fails its liveness probe after three seconds waits longer each time.
func TestLivenessBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, pod := started(t, "app:a")
		var ran time.Duration
		for range 120 {
			time.Sleep(time.Second)
			failed := map[string]bool{}
			if b.running(pod) == "a" {
				ran += time.Second
				if last := b.status(pod).Container("a"); time.Since(last.StartedAt) >= 3*time.Second {
					failed[last.ID] = true
				}
			}
			if result := b.sync(pod, Probes{LivenessFailed: failed}); b.running(pod) == "" {
				reason := result.Waiting["a"]
				testutil.Require(t, reason != nil && reason.Reason == model.ReasonCrashLoopBackOff && result.Again != 0,
					"no back-off: %+v", result)
			}
		}
		restarts := b.status(pod).Container("a").Attempt
		testutil.Assert(t, restarts >= 3 && restarts <= 5,
			"%d restarts in two minutes, of which it ran %v", restarts, ran)
	})
}

func TestSyncReasons(t *testing.T) {
	b := newBench(t)
	pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:config", "app:image", "app:good"))
	pod.Spec.Containers[0].Args = []string{"x"}
	pod.Spec.Containers[1].Image = "other"
	result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, err != nil, "no error")
	testutil.Assert(t, result.Waiting["config"].Reason == model.ReasonCreateConfigError &&
		result.Waiting["image"].Reason == model.ReasonErrImageNeverPull && result.Waiting["good"] == nil &&
		b.running(pod) == "good", "%+v, running %s", result.Waiting, b.running(pod))
	b.fake.InjectError("StartContainer", errors.New("no such program"))
	pod = pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:start"))
	pod.UID, pod.Name = "other", "other"
	result, _ = b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, result.Waiting["start"].Reason == model.ReasonRunContainerError, "%+v", result.Waiting)
}

// kill calls KillPod, and returns the calls of the runtime with their times since then, sorted.
func (b *bench) kill(pod *v1.Pod, status *model.PodStatus) []string {
	b.t.Helper()
	b.fake.began = time.Now()
	testutil.Must(b.t, b.KillPod(b.t.Context(), pod, status, KillOptions{MinGrace: 1}))
	slices.Sort(b.fake.noted)
	return b.fake.noted
}

// TestKillPod: app containers end at once, each with its preStop hook, and then the sidecars, the last started first.
// All of it shares one grace period.
func TestKillPod(t *testing.T) {
	for _, test := range []struct {
		name  string
		pod   string
		grace int64
		hooks map[string]string // the command of the preStop hook, by container
		stops map[string]time.Duration
		want  []string
	}{
		{
			"sidecars stop after the apps", "side:s1 side:s2 app:a app:b", 30, map[string]string{"a": "bye"},
			map[string]time.Duration{"a": 2 * time.Second, "b": time.Second, "s2": 4 * time.Second},
			[]string{"0s exec a [bye]", "0s stop b 30", "3s stop a 27", "5s stop s2 25", "9s stop s1 21"},
		},
		{
			"a sidecar's hook runs at once", "side:s app:a", 12, map[string]string{"s": "drain"},
			map[string]time.Duration{"a": 5 * time.Second},
			[]string{"0s exec s [drain]", "0s stop a 12", "5s stop s 7"},
		},
		{
			"an endless hook ends with its container", "app:a", 12, map[string]string{"a": "forever"},
			map[string]time.Duration{"a": 2 * time.Second},
			[]string{"0s exec a [forever]", "12s stop a 2", "14s exec of a ended"},
		},
		{
			"without grace, a hook has a second", "app:a", 0, map[string]string{"a": "forever"},
			map[string]time.Duration{"a": 2 * time.Second},
			[]string{"0s exec a [forever]", "1s stop a 2", "3s exec of a ended"},
		},
		{"no grace, but the minimum", "app:a", 0, nil, nil, []string{"0s stop a 2"}},
		{"less than the minimal grace", "app:a", 1, nil, nil, []string{"0s stop a 2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, test.pod))
				pod.Spec.TerminationGracePeriodSeconds = &test.grace
				for range len(pod.Spec.InitContainers) + 1 {
					b.sync(pod, Probes{})
				}
				for name, command := range test.hooks {
					c, _ := model.FindContainer(&pod.Spec, name)
					exec := &v1.ExecAction{Command: []string{command}}
					c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: exec}}
				}
				b.fake.stops = func(name string) time.Duration { return test.stops[name] }
				got := b.kill(pod, b.status(pod))
				testutil.Assert(t, slices.Equal(got, test.want), "%q, want %q", got, test.want)
				testutil.Assert(t, b.running(pod) == "" && b.status(pod).ReadySandbox() == nil, "something still runs")
			})
		})
	}
}

// TestFailedStopStopsTheSandbox: a pod's sandboxes stop although one of its containers cannot be stopped. They stay
// when the kubelet itself ends.
func TestFailedStopStopsTheSandbox(t *testing.T) {
	for _, ends := range []bool{false, true} {
		b, pod := started(t, "app:a")
		id := b.status(pod).Sandboxes[0].ID
		b.fake.sandboxes, b.fake.unstoppable = nil, errors.New("the shim does not answer")
		ctx, cancel := context.WithCancel(t.Context())
		if ends {
			cancel()
		}
		err := b.KillPod(ctx, pod, b.status(pod), KillOptions{})
		cancel()
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), "stop container a: the shim does not answer"),
			"%v", err)
		var want []string
		if !ends {
			want = []string{"stop " + id}
		}
		testutil.Assert(t, slices.Equal(b.fake.sandboxes, want),
			"the kubelet ends: %v: %q, want %q", ends, b.fake.sandboxes, want)
	}
}

// TestSidecarThatCannotStart: an app container restarts although a sidecar cannot, if the pod was initialized before.
func TestSidecarThatCannotStart(t *testing.T) {
	b, pod := started(t, "side:s", "app:a")
	b.sync(pod, Probes{})
	b.exit(pod, "s", 1)
	b.exit(pod, "a", 1)
	pod.Spec.InitContainers[0].Image = "gone"
	result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, err != nil && result.Waiting["s"] != nil && b.running(pod) == "a",
		"%v, %+v, running %q", err, result.Waiting, b.running(pod))
}

// TestTwoAttemptsEnd: a sidecar waits for all attempts of a container.
func TestTwoAttemptsEnd(t *testing.T) {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "side:s", "app:a")
	attempt := containerKill{Container: model.ContainerStatus{Name: "a"}}
	kills := []containerKill{attempt, attempt, {Container: model.ContainerStatus{Name: "s"}}}
	synctest.Test(t, func(t *testing.T) {
		order := newKillOrder(pod, kills)
		began := time.Now()
		for i := range 2 {
			time.AfterFunc(time.Duration(i+1)*time.Second, func() { order.ended("a") })
		}
		order.wait(t.Context(), "s", began.Add(time.Minute))
		testutil.Equal(t, time.Since(began), 2*time.Second, "the sidecar waited")
	})
}

// TestKillOrphan: a pod that only the runtime knows is killed as the annotations of its containers say.
func TestKillOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, pod := started(t, "app:a")
		status := b.status(pod)
		status.Containers[0].Annotations = map[string]string{
			model.AnnotationPodTerminationGrace: "7", model.AnnotationPreStopHandler: `{"exec":{"command":["bye"]}}`,
		}
		bare := &v1.Pod{}
		bare.UID, bare.Name, bare.Namespace = pod.UID, pod.Name, pod.Namespace
		got, want := b.kill(bare, status), []string{"0s exec a [bye]", "3s stop a 4"}
		testutil.Assert(t, slices.Equal(got, want), "%q, want %q", got, want)
	})
}

func TestPostStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a"))
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"fail"}}}}
		result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
		testutil.Assert(t, err != nil && result.Waiting["a"].Reason == model.ReasonPostStartHookError &&
			b.running(pod) == "", "%v, %+v, running %q", err, result.Waiting, b.running(pod))
	})
}

// TestPostStartFailsThenHTTPHook: after a failed postStart hook, an HTTP preStop hook asks the pod's address.
func TestPostStartFailsThenHTTPHook(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	testutil.Must(t, err)
	b := newBench(t)
	b.fake.ip = host
	pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a"))
	pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
		PostStart: &v1.LifecycleHandler{},
		PreStop:   &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.Parse(port)}},
	}
	result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, err != nil && result.Waiting["a"].Reason == model.ReasonPostStartHookError && asked.Load() == 1,
		"%v, %+v, the preStop hook asked %d times", err, result.Waiting, asked.Load())
}

// TestMain sets a proxy in the environment for all tests, because net/http reads it only once. The proxy answers every
// request with 502.
func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		proxied.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	os.Setenv("HTTP_PROXY", proxy.URL)
	os.Setenv("HTTPS_PROXY", proxy.URL)
	os.Exit(m.Run())
}

// proxied counts the requests that went to the proxy.
var proxied atomic.Int32

// TestHTTPHook: any answer is a success, as in the kubelet.
func TestHTTPHook(t *testing.T) {
	var asked string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = strings.TrimSpace(r.URL.Path + " " + r.Header.Get("X") + r.Header.Get("Authorization"))
		if !strings.HasPrefix(r.Host, "127.0.0.1") && !strings.HasPrefix(r.Host, "0.0.0.0") {
			asked += " of " + r.Host
		}
		if r.URL.Path == "/bad" {
			http.Error(w, "no luck", http.StatusInternalServerError)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	closed := httptest.NewServer(handler)
	closed.Close()
	header := func(name, value string) []v1.HTTPHeader { return []v1.HTTPHeader{{Name: name, Value: value}} }
	for _, c := range []struct {
		name   string
		server *httptest.Server
		get    v1.HTTPGetAction
		want   string // empty for an error
	}{
		{"with a header", plain, v1.HTTPGetAction{Path: "/bye", HTTPHeaders: header("X", "y")}, "/bye y"},
		{"any status", plain, v1.HTTPGetAction{Path: "/bad"}, "/bad"},
		{"path without slash", plain, v1.HTTPGetAction{Path: "bye"}, "/bye"},
		{"no path", plain, v1.HTTPGetAction{}, "/"},
		{"a host header", plain, v1.HTTPGetAction{Path: "/bye", HTTPHeaders: header("host", "shop")}, "/bye of shop"},
		// not a loopback address, since net/http uses no proxy for these
		{"no proxy", plain, v1.HTTPGetAction{Path: "/bye", Host: "0.0.0.0"}, "/bye"},
		{"any certificate", secure,
			v1.HTTPGetAction{Path: "/bye", Scheme: "HTTPS", HTTPHeaders: header("Authorization", "s3")}, "/bye s3"},
		{"HTTPS of a plain server", plain,
			v1.HTTPGetAction{Path: "/bye", Scheme: "HTTPS", HTTPHeaders: header("Authorization", "s3")}, "/bye"},
		{"a closed port", closed, v1.HTTPGetAction{Path: "/bye"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, port, err := net.SplitHostPort(c.server.Listener.Addr().String())
			testutil.Must(t, err)
			asked, c.get.Port = "", intstr.Parse(port)
			err = httpHook(t.Context(), hookTarget{ip: host}, &c.get)
			testutil.Assert(t, (err == nil) == (c.want != "") && asked == c.want,
				"%v, asked %q, want %q", err, asked, c.want)
		})
	}
	testutil.Equal(t, proxied.Load(), 0, "requests to the proxy")
}

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
		len(left.Sandboxes) == 1, "left of the pod that exists: %+v", left)
	left = b.status(gone)
	testutil.Assert(t, len(left.Containers)+len(left.Sandboxes) == 0, "left of the pod that is gone: %+v", left)
	for path, want := range map[string]bool{theirs: true, model.PodLogDirectory(b.dir, pod): true,
		model.PodLogDirectory(b.dir, gone): false} {
		_, err := os.Stat(path)
		testutil.Assert(t, (err == nil) == want, "%s: %v, want it there: %v", path, err, want)
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
	b.fake.sandboxes = nil
	c := &Collector{Runtime: b.runtime, PodLogsDir: b.dir}
	for range 2 { // the first round removes its container
		testutil.Must(t, c.Collect(t.Context(), func(types.UID) bool { return true }))
	}
	want = []string{"stop " + first, "remove " + first}
	testutil.Assert(t, slices.Equal(b.fake.sandboxes, want), "collected: %q, want %q", b.fake.sandboxes, want)
}

// TestIdlePodCostsListsAlone: garbage collection and log rotation of an idle pod cost two list calls.
func TestIdlePodCostsListsAlone(t *testing.T) {
	b, pod := started(t, "app:a")
	observed := b.status(pod)
	observed.Containers[0].LogPath = filepath.Join(b.dir, "0.log")
	testutil.Must(t, os.WriteFile(observed.Containers[0].LogPath, []byte("short"), 0o600))
	before := len(b.fake.GetCalls())
	c := &Collector{Runtime: b.runtime, PodLogsDir: b.dir, Keep: 1}
	r := &Rotator{Runtime: b.runtime, Pods: func() []*model.PodStatus {
		return []*model.PodStatus{observed}
	}, MaxSize: 10, MaxFiles: 2}
	testutil.Must(t, errors.Join(c.Collect(t.Context(), func(types.UID) bool { return true }), r.Rotate(t.Context())))
	got, want := b.fake.GetCalls()[before:], []string{"ListPodSandbox", "ListContainers"}
	testutil.Assert(t, slices.Equal(got, want), "calls %q, want %q", got, want)
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
