package podsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/kuberuntime"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podspec"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/prober"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// specs makes minimal configurations.
type specs struct{}

func labels(pod *v1.Pod) map[string]string {
	return map[string]string{model.LabelPodUID: string(pod.UID), model.LabelPodName: pod.Name,
		model.LabelPodNamespace: pod.Namespace, model.LabelOwner: "us"}
}

func (specs) Sandbox(_ context.Context, pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID),
			Attempt: attempt},
		Labels: labels(pod),
	}, nil
}

func (specs) Container(_ context.Context, in podspec.ContainerInput) (*runtimeapi.ContainerConfig, error) {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: in.Container.Name, Attempt: in.Attempt},
		Image:    &runtimeapi.ImageSpec{Image: in.ImageID}, Labels: labels(in.Pod),
		Annotations: map[string]string{model.AnnotationHash: model.ContainerHash(in.Container),
			model.AnnotationResources: "{}"},
	}, nil
}

func (specs) Resources(*v1.Pod, *v1.Container, v1.ResourceRequirements) *runtimeapi.LinuxContainerResources {
	return &runtimeapi.LinuxContainerResources{}
}

func (specs) PodResources(*v1.Pod) (overhead, resources *runtimeapi.LinuxContainerResources) {
	return nil, &runtimeapi.LinuxContainerResources{}
}

// inspectedImages calls inspected, unless it is nil, before an image is looked up.
type inspectedImages struct {
	*apitest.FakeImageService
	inspected func()
}

func (i *inspectedImages) ImageStatus(
	ctx context.Context, image *runtimeapi.ImageSpec, verbose bool,
) (*runtimeapi.ImageStatusResponse, error) {
	if i.inspected != nil {
		i.inspected()
	}
	return i.FakeImageService.ImageStatus(ctx, image, verbose)
}

// bench is a Syncer on a fake runtime.
type bench struct {
	*Syncer
	fake    *apitest.FakeRuntimeService
	evented *eventedFake
	runtime *cri.Runtime
	cgroups *cgroup.Manager
	events  *events.Recorder
	images  *inspectedImages
	// network is the error of NetworkErr.
	network error
}

func newBench(t *testing.T, options ...cgroup.Options) *bench {
	t.Helper()
	images := &inspectedImages{FakeImageService: apitest.NewFakeImageService()}
	images.SetFakeImages([]string{"image"})
	b := &bench{fake: apitest.NewFakeRuntimeService(), events: events.New("n"), images: images}
	b.evented = &eventedFake{FakeRuntimeService: b.fake}
	b.runtime = cri.New(b.evented, images, "us")
	b.cgroups = cgroup.New(t.Context(), append(options, cgroup.Options{})[0])
	probes := prober.New(t.Context(), prober.Options{Exec: b.runtime, HostIP: func() string { return "192.0.2.1" },
		Probed: func(*v1.Pod, string, prober.Type, prober.Result, time.Duration) {}})
	t.Cleanup(probes.Wait)
	allocated, err := allocation.Open(filepath.Join(t.TempDir(), "allocated"))
	testutil.Must(t, err)
	shown := status.NewManager()
	b.Syncer = New(Options{
		Allocation: allocated,
		Cache:      pleg.NewCache(b.runtime), RuntimeErr: func() error { return nil }, NetworkErr: func() error {
			return b.network
		},
		Volumes: volumemanager.New(volumemanager.Options{RootDir: t.TempDir()}), Cgroups: b.cgroups,
		Prober: probes, Status: shown, Events: b.events,
		HostIPs: func() []string { return []string{"192.0.2.1"} },
		Runtime: kuberuntime.New(kuberuntime.Options{
			Runtime: b.runtime, Specs: specs{}, Allocation: allocated, Events: b.events,
			SandboxReady: shown.SetSandboxReady,
			Images:       imagemanager.New(imagemanager.Options{Service: imagemanager.NewImages(images)}),
		}),
	})
	return b
}

func testPod(name string, hostNetwork bool) *v1.Pod {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	pod.Name, pod.UID = name, types.UID(name)
	pod.Spec.HostNetwork = hostNetwork
	pod.Spec.Containers[0].ImagePullPolicy = v1.PullNever
	return pod
}

// sync is a SyncPod that must succeed.
func (b *bench) sync(t *testing.T, pod *v1.Pod) {
	t.Helper()
	_, _, err := b.SyncPod(t.Context(), pod)
	testutil.Must(t, err)
}

// warned says whether there is a warning with a reason and this part of its message.
func (b *bench) warned(reason, part string) bool {
	return slices.ContainsFunc(b.events.List(), func(event v1.Event) bool {
		return event.Reason == reason && event.Type == v1.EventTypeWarning && strings.Contains(event.Message, part)
	})
}

// running says whether a container of the pod runs.
func (b *bench) running(t *testing.T, pod *v1.Pod) bool {
	t.Helper()
	observed, err := b.runtime.PodStatus(t.Context(), pod.UID)
	testutil.Must(t, err)
	return observed.Running()
}

// TestNetworkNotReady: pods in the host's network run without the pod network, because one of them may set up the pod
// network. Other pods wait.
func TestNetworkNotReady(t *testing.T) {
	b := newBench(t)
	old, pod, host := testPod("old", false), testPod("pod", false), testPod("host", true)
	_, _, err := b.SyncPod(t.Context(), old)
	testutil.Require(t, err == nil && b.running(t, old), "while the network is ready: %v", err)
	b.network = errors.New("no CNI configuration")
	_, _, err = b.SyncPod(t.Context(), pod)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "network is not ready: no CNI configuration"),
		"error %v", err)
	testutil.Assert(t, !b.running(t, pod), "a pod runs without the pod network that it needs")
	_, _, err = b.SyncPod(t.Context(), old)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "network is not ready") && b.running(t, old),
		"a pod that runs already: %v", err)
	shown := b.opts.Status.Status(pod)
	testutil.Assert(t, shown.Phase == v1.PodPending, "phase %s of the pod that waits", shown.Phase)
	recorded := b.events.List()
	testutil.Assert(t, len(recorded) != 0 && recorded[len(recorded)-1].Reason == "NetworkNotReady",
		"events %v", recorded)
	_, _, err = b.SyncPod(t.Context(), host)
	testutil.Assert(t, err == nil && b.running(t, host), "a pod of the host's network: %v", err)
	err = b.SyncTerminatingPod(t.Context(), old, podworkers.Termination{})
	testutil.Assert(t, err == nil && !b.running(t, old), "the end of a pod: %v", err)
	b.network = nil
	_, _, err = b.SyncPod(t.Context(), pod)
	testutil.Assert(t, err == nil && b.running(t, pod), "when the network is ready: %v", err)
}

// TestReadyToStartContainers: the condition is true before the images are pulled, and after the sync.
func TestReadyToStartContainers(t *testing.T) {
	b, pod := newBench(t), testPod("pod", false)
	var shown []string
	show := func() {
		if c := model.FindCondition(b.opts.Status.Status(pod).Conditions, v1.PodReadyToStartContainers); c != nil {
			shown = append(shown, string(c.Status))
		}
	}
	b.images.inspected = show
	b.sync(t, pod)
	show()
	testutil.Assert(t, slices.Equal(shown, []string{"True", "True"}),
		"the condition before a pull and after the sync: %q", shown)
}

// TestIdleSyncMakesNoCRICall: the sync after the pod's start finds its status in the cache.
func TestIdleSyncMakesNoCRICall(t *testing.T) {
	b := newBench(t)
	pod := testPod("pod", false)
	var calls int
	for range 2 {
		calls = len(b.fake.GetCalls())
		b.sync(t, pod)
	}
	got := b.fake.GetCalls()[calls:]
	testutil.Assert(t, len(got) == 0 && b.running(t, pod), "calls %v", got)
	shown := b.opts.Status.Status(pod)
	testutil.Assert(t, shown.Phase == v1.PodRunning, "phase %s", shown.Phase)
}

// TestRestoredReadinessIsHeld: a restored pod's readiness is not sent until the API server lists the pod or a probe has
// a result.
func TestRestoredReadinessIsHeld(t *testing.T) {
	for _, probed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			pod := testPod("pod", false)
			pod.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceAPI}
			pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{
				ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}, InitialDelaySeconds: 60,
				PeriodSeconds: 60, SuccessThreshold: 1, FailureThreshold: 1,
			}
			for range 2 {
				b.sync(t, pod)
			}
			shown := b.opts.Status.Get(pod.UID)
			testutil.Require(t, b.opts.Status.Held(pod.UID) && !shown.Status.ContainerStatuses[0].Ready,
				"held %v: %+v", b.opts.Status.Held(pod.UID), shown)
			if probed {
				time.Sleep(2 * time.Minute)
			} else {
				server := pod.DeepCopy()
				server.ResourceVersion, server.Status = "7", *b.opts.Status.Get(pod.UID).Status.DeepCopy()
				server.Status.ContainerStatuses[0].Ready = true
				pod = server
			}
			b.sync(t, pod)
			shown = b.opts.Status.Get(pod.UID)
			testutil.Assert(t, !b.opts.Status.Held(pod.UID) && shown.Status.ContainerStatuses[0].Ready,
				"probed %v: held %v, %+v", probed, b.opts.Status.Held(pod.UID), shown.Status.ContainerStatuses)
			b.opts.Prober.Forget(pod.UID)
		})
	}
}

// TestFailureOfTheNode: a pod that the node ends becomes Failed with the node's reason, even if the kubelet restarts
// meanwhile. A completed pod keeps its phase.
func TestFailureOfTheNode(t *testing.T) {
	b := newBench(t)
	why := podworkers.Termination{Failure: &model.Failure{Reason: model.ReasonEvicted, Message: "too much"}}
	pod, half, over := testPod("pod", false), testPod("half", false), testPod("over", false)
	for _, each := range []*v1.Pod{pod, half} {
		b.sync(t, each)
	}
	err := b.SyncTerminatingPod(t.Context(), pod, why)
	testutil.Assert(t, err == nil && !b.running(t, pod), "the end of a pod: %v", err)
	got := b.opts.Status.Status(pod)
	testutil.Assert(t, got.Phase == v1.PodFailed && got.Reason == "Evicted" && got.Message == "too much",
		"%s %s: %s", got.Phase, got.Reason, got.Message)
	b.opts.Status.Set(half, status.Failing(b.opts.Status.Status(half), *why.Failure, time.Now()))
	ended, _, err := b.SyncPod(t.Context(), half)
	testutil.Assert(t, ended && err == nil, "a pod that is half ended: ended %v, %v", ended, err)
	b.opts.Status.Set(over, v1.PodStatus{Phase: v1.PodSucceeded})
	testutil.Must(t, b.SyncTerminatingPod(t.Context(), over, why))
	got = b.opts.Status.Status(over)
	testutil.Assert(t, got.Phase == v1.PodSucceeded && got.Reason == "", "%s %s", got.Phase, got.Reason)
}

// TestStatusThatFailsAfterAStart: without a new status nothing is published, so SyncPod returns an error.
func TestStatusThatFailsAfterAStart(t *testing.T) {
	b := newBench(t)
	pod := testPod("pod", false)
	b.fake.InjectError("ContainerStatus", errors.New("it does not answer"))
	_, _, err := b.SyncPod(t.Context(), pod)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "it does not answer"), "error %v", err)
	testutil.Assert(t, !b.warned("FailedSync", ""), "events %+v", b.events.List())
	b.sync(t, pod)
	shown := b.opts.Status.Status(pod)
	testutil.Assert(t, shown.Phase == v1.PodRunning, "phase %s", shown.Phase)
}

// TestHookWithoutGrace: the preStop hook of a pod runs even if the pod's grace period, or the requested one, is zero.
func TestHookWithoutGrace(t *testing.T) {
	for _, grace := range []*int64{nil, new(int64)} {
		b, pod := newBench(t), testPod("pod", false)
		pod.Spec.TerminationGracePeriodSeconds = new(int64)
		hook := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}}
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: hook}
		b.sync(t, pod)
		testutil.Must(t, b.SyncTerminatingPod(t.Context(), pod, podworkers.Termination{Grace: grace}))
		testutil.Assert(t, slices.Contains(b.fake.GetCalls(), "ExecSync"), "grace %v: the hook did not run", grace)
	}
}

// TestPodThatCannotBeKilled: an event says why a pod does not end.
func TestPodThatCannotBeKilled(t *testing.T) {
	b, pod := newBench(t), testPod("pod", false)
	b.sync(t, pod)
	b.fake.InjectError("StopContainer", errors.New("it hangs"))
	err := b.SyncTerminatingPod(t.Context(), pod, podworkers.Termination{})
	testutil.Assert(t, err != nil && b.warned("FailedKillPod", "it hangs"), "error %v, events %+v", err,
		b.events.List())
}

// TestUnknownStatus: an event says why a pod is neither synced nor ended.
func TestUnknownStatus(t *testing.T) {
	b, pod := newBench(t), testPod("pod", false)
	for _, step := range []func() error{
		func() error {
			_, _, err := b.SyncPod(t.Context(), pod)
			return err
		},
		func() error { return b.SyncTerminatingPod(t.Context(), pod, podworkers.Termination{}) },
	} {
		failed := fmt.Sprintf("failure %d", len(b.events.List()))
		b.fake.InjectError("ListPodSandbox", errors.New(failed))
		err := step()
		testutil.Assert(t, err != nil && b.warned("FailedSync", "error determining status: list sandboxes: "+failed),
			"error %v, events %+v", err, b.events.List())
	}
	events := len(b.events.List())
	b.Syncer.opts.RuntimeErr = func() error { return errors.New("away") }
	b.fake.InjectError("ListPodSandbox", errors.New("away"))
	_, _, err := b.SyncPod(t.Context(), pod)
	testutil.Assert(t, err != nil && len(b.events.List()) == events,
		"while the runtime is away: error %v, events %+v", err, b.events.List())
}

// TestUnknownContainerKeepsPodEnding: a pod has not ended while a container's state is unknown.
func TestUnknownContainerKeepsPodEnding(t *testing.T) {
	b := newBench(t)
	pod := testPod("pod", false)
	b.sync(t, pod)
	b.evented.unknown = true
	err := b.SyncTerminatingPod(t.Context(), pod, podworkers.Termination{})
	testutil.Assert(t, err != nil, "the pod counts as ended")
	shown := b.opts.Status.Status(pod)
	testutil.Assert(t, shown.Phase == v1.PodRunning, "phase %s while the state is unknown", shown.Phase)
	b.evented.unknown = false
	testutil.Must(t, b.SyncTerminatingPod(t.Context(), pod, podworkers.Termination{}))
	shown = b.opts.Status.Status(pod)
	testutil.Assert(t, model.Terminal(shown.Phase), "phase %s at the end", shown.Phase)
}

// TestPodIsNotTerminalBeforeItIsStopped: a start that was cancelled may still succeed until the sandbox is stopped.
func TestPodIsNotTerminalBeforeItIsStopped(t *testing.T) {
	b := newBench(t)
	pod := testPod("pod", false)
	b.fake.InjectError("StartContainer", context.Canceled)
	_, _, err := b.SyncPod(t.Context(), pod)
	testutil.Assert(t, err != nil, "SyncPod succeeds although the start was cancelled")
	b.fake.InjectError("StopPodSandbox", errors.New("it does not stop"))
	testutil.Assert(t, b.SyncTerminatingPod(t.Context(), pod, podworkers.Termination{}) != nil,
		"the end succeeds although the sandbox does not stop")
	shown := b.opts.Status.Status(pod)
	testutil.Assert(t, shown.Phase == v1.PodPending, "phase %s while the sandbox runs", shown.Phase)
	testutil.Must(t, b.SyncTerminatingPod(t.Context(), pod, podworkers.Termination{}))
	shown = b.opts.Status.Status(pod)
	testutil.Assert(t, shown.Phase == v1.PodFailed, "phase %s at the end", shown.Phase)
}

// TestEndingPodShowsItsAllocation: a pending resize does not change the allocated resources of an ending pod.
func TestEndingPodShowsItsAllocation(t *testing.T) {
	b := newBench(t)
	pod := testPod("pod", false)
	cpu := func(pod *v1.Pod, amount string) {
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	}
	cpu(pod, "100m")
	testutil.Must(t, b.opts.Allocation.Allocate(pod))
	b.sync(t, pod)
	larger := pod.DeepCopy()
	cpu(larger, "64")
	b.fake.InjectError("StopContainer", errors.New("it does not stop"))
	err := b.SyncTerminatingPod(t.Context(), larger, podworkers.Termination{})
	testutil.Assert(t, err != nil, "no error")
	got := b.opts.Status.Status(pod).ContainerStatuses[0].AllocatedResources[v1.ResourceCPU]
	testutil.Assert(t, got.String() == "100m", "allocated %s", got.String())
}

// TestCgroupIsNotLoweredTooEarly: the pod's cgroup keeps its limit until the container that gets a lower limit has been
// stopped.
func TestCgroupIsNotLoweredTooEarly(t *testing.T) {
	b := newBench(t, cgroup.Options{Driver: cgroup.Cgroupfs, Root: "test-podsync-lowered"})
	pod := testPod("pod", false)
	if b.cgroups.Parent(pod) == "" {
		t.Skip("the machine's cgroups cannot be written")
	}
	t.Cleanup(func() {
		testutil.Must(t, b.cgroups.RemoveAll(context.Background()))
	})
	container := &pod.Spec.Containers[0]
	container.ResizePolicy = []v1.ContainerResizePolicy{
		{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	limit := func(memory string) {
		container.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	}
	limit("64Mi")
	b.sync(t, pod)
	observed, err := b.runtime.PodStatus(t.Context(), pod.UID)
	testutil.Must(t, err)
	testutil.Must(t, b.opts.Allocation.SetActuated(pod.UID, &observed.Containers[0], container.Resources))
	limit("32Mi")
	for _, c := range []struct {
		err  error
		want string
	}{{errors.New("it does not stop"), "67108864"}, {nil, "33554432"}} {
		if c.err != nil {
			b.fake.InjectError("StopContainer", c.err)
		}
		_, _, err := b.SyncPod(t.Context(), pod)
		testutil.Assert(t, (err == nil) == (c.err == nil), "error %v, want %v", err, c.err)
		testutil.Equal(t, memoryLimit(t, b.cgroups.Parent(pod)), c.want, "after %v the pod's cgroup", c.err)
	}
}

// TestHostPathGone: a started pod restarts its containers although a hostPath has vanished. The error is reported.
func TestHostPathGone(t *testing.T) {
	b := newBench(t)
	dir := filepath.Join(t.TempDir(), "d")
	testutil.Must(t, os.Mkdir(dir, 0o755))
	pod := testPod("p", false)
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
		HostPath: &v1.HostPathVolumeSource{Path: dir, Type: new(v1.HostPathDirectory)}}}}
	b.sync(t, pod)
	testutil.Assert(t, b.running(t, pod), "does not run")
	testutil.Must(t, os.Remove(dir))
	b.fake.Lock()
	for _, c := range b.fake.Containers {
		c.State, c.ExitCode = runtimeapi.ContainerState_CONTAINER_EXITED, 1
	}
	b.fake.Unlock()
	_, err := b.opts.Cache.Refresh(t.Context(), pod.UID)
	testutil.Must(t, err)
	_, _, err = b.SyncPod(t.Context(), pod)
	testutil.Assert(t, err != nil && b.running(t, pod), "the container is not restarted: %v", err)
}

// memoryLimit reads a cgroup's memory limit, of cgroup v1 or v2.
func memoryLimit(t *testing.T, parent string) string {
	t.Helper()
	for _, path := range []string{filepath.Join("/sys/fs/cgroup", parent, "memory.max"),
		filepath.Join("/sys/fs/cgroup/memory", parent, "memory.limit_in_bytes")} {
		if text, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("the cgroup %s has no memory limit", parent)
	return ""
}
