package kuberuntime

import (
	"context"
	"errors"
	"fmt"
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

// fake is a runtime in memory. StopContainer takes as long as stopTime returns. noted has the calls.
type fake struct {
	*apitest.FakeRuntimeService
	stopTime func(id string) time.Duration

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
	return &fake{FakeRuntimeService: apitest.NewFakeRuntimeService(), stopTime: func(string) time.Duration {
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
	time.Sleep(f.stopTime(name(id)))
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

// message returns the message of the last event with a reason, empty without one.
func (b *bench) message(reason string) (message string) {
	for _, event := range b.events.List() {
		if event.Reason == reason {
			message = event.Message
		}
	}
	return message
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
			"%d restarts in two minutes, with a run time of %v", restarts, ran)
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
	testutil.Equal(t, b.message("Failed"), "Error: ErrImageNeverPull", "event")
	b.fake.InjectError("StartContainer", errors.New("no such program"))
	pod = pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:start"))
	pod.UID, pod.Name = "other", "other"
	result, _ = b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, result.Waiting["start"].Reason == model.ReasonRunContainerError, "%+v", result.Waiting)
	testutil.Equal(t, result.Waiting["start"].Err.Error(), "no such program", "message")
	testutil.Equal(t, b.message("Failed"), "Error: no such program", "event")
	b.sync(pod, Probes{})
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{TargetContainerName: "gone",
		EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "image",
			ImagePullPolicy: v1.PullNever}}}
	result, _ = b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, result.Waiting["debug"].Reason == model.ReasonCreateConfigError, "%+v", result.Waiting)
	testutil.Equal(t, b.message("Failed"), "Error: unable to find target container gone", "event")
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

// proxied counts the requests that went to the proxy.
var proxied atomic.Int32

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
