package kuberuntime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

func memory(limit string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}}
}

// TestComputeResizes: resources that differ are changed in place, or by a restart if the resizePolicy asks for it.
func TestComputeResizes(t *testing.T) {
	restart := []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	for _, test := range []struct {
		name, now string
		policy    []v1.ContainerResizePolicy
		want      string
	}{
		{"the same", "64Mi", restart, ""},
		{"spelled otherwise", "65536Ki", nil, ""},
		{"in place", "32Mi", nil, "resize:a-1"},
		{"with a restart", "32Mi", restart, "kill:a-1 start:a#1"},
	} {
		pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
		pod.Spec.Containers[0].Resources, pod.Spec.Containers[0].ResizePolicy = memory("64Mi"), test.policy
		now := func(types.UID, *v1.Container, *model.ContainerStatus) (v1.ResourceRequirements, bool) {
			return memory(test.now), true
		}
		actions := computePodActions(pod, statusOf("sandbox a=running"), Probes{}, now)
		testutil.Equal(t, words(actions), test.want, "%s", test.name)
		for _, kill := range actions.Kill {
			testutil.Equal(t, kill.Message, "Container a resize requires restart", "event")
		}
	}
}

// updates are the calls of UpdateContainerResources.
func (b *bench) updates() []string {
	return slices.DeleteFunc(b.fake.GetCalls(), func(call string) bool { return call != "UpdateContainerResources" })
}

// TestResize: a running container is changed once, a failure is retried, and a limit below the usage is refused.
func TestResize(t *testing.T) {
	b, pod := started(t, "app:a")
	container := b.status(pod).Containers[0]
	testutil.Must(t, b.opts.Allocation.SetActuated(pod.UID, &container, memory("64Mi")))
	updates := func() int { return len(b.updates()) }
	pod.Spec.Containers[0].Resources = memory("128Mi")
	b.fake.InjectError("UpdateContainerResources", errors.New("not now"))
	result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, err != nil && result.ResizeErr != nil, "SyncPod hides the failed update")
	testutil.Equal(t, b.message("ResizeError"),
		allocation.Message("Pod resize error", pod, "resize container a: not now"), "event")
	for range 2 {
		b.sync(pod, Probes{})
	}
	testutil.Equal(t, b.message("ResizeCompleted"), allocation.Message("Pod resize completed", pod, ""), "event")
	testutil.Equal(t, updates(), 2, "updates, with the failed one")
	b.fake.SetFakeContainerStats([]*runtimeapi.ContainerStats{{
		Attributes: &runtimeapi.ContainerAttributes{Id: container.ID},
		Memory:     &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: 48 << 20}},
	}})
	pod.Spec.Containers[0].Resources = memory("32Mi")
	result, err = b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, err != nil && result.ResizeErr != nil && strings.Contains(result.ResizeErr.Error(), "in use") &&
		updates() == 2, "a limit below the memory in use: %v, %d updates", err, updates())
	pod.Spec.Containers[0].Resources = memory("50Mi")
	b.sync(pod, Probes{})
	now, known := b.opts.Allocation.Actuated(pod.UID, &pod.Spec.Containers[0], &container)
	testutil.Assert(t, known && now.Limits.Memory().String() == "50Mi" && updates() == 3,
		"actuated resources %v after %d updates", now, updates())
}

// TestResizeByRestart: a resize that only restarts a container is recorded as completed, too.
func TestResizeByRestart(t *testing.T) {
	b, pod := started(t, "app:a")
	container := b.status(pod).Containers[0]
	testutil.Must(t, b.opts.Allocation.SetActuated(pod.UID, &container, memory("64Mi")))
	c := &pod.Spec.Containers[0]
	c.Resources, c.ResizePolicy = memory("128Mi"), []v1.ContainerResizePolicy{
		{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	b.sync(pod, Probes{})
	testutil.Equal(t, b.status(pod).Container("a").Attempt, 1, "the attempt")
	testutil.Equal(t, b.message("ResizeCompleted"), allocation.Message("Pod resize completed", pod, ""), "event")
}

// TestResizeOfUnknownResources: if the actuated resources are unknown, the allocated ones are applied, unless the
// actual limit is equal.
func TestResizeOfUnknownResources(t *testing.T) {
	restart := []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	for _, test := range []struct {
		name     string
		shown    *runtimeapi.LinuxContainerResources
		policy   []v1.ContainerResizePolicy
		updates  int
		attempts uint32
	}{
		{"another limit", &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 32 << 20}, nil, 1, 0},
		{"another limit, restart", &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 32 << 20}, restart, 0, 1},
		{"the same limit", &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 << 20}, restart, 0, 0},
		{"nothing", nil, nil, 1, 0},
		{"nothing, restart", nil, restart, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a"))
			pod.Spec.Containers[0].Resources, pod.Spec.Containers[0].ResizePolicy = memory("64Mi"), test.policy
			b.sync(pod, Probes{})
			b.fake.SetFakeContainerStats([]*runtimeapi.ContainerStats{{
				Attributes: &runtimeapi.ContainerAttributes{Id: b.status(pod).Containers[0].ID},
			}})
			b.fake.limits = test.shown
			b.sync(pod, Probes{})
			b.fake.limits = nil
			if test.attempts == 0 && test.updates > 0 {
				b.sync(pod, Probes{})
			}
			got, now := len(b.updates()), b.status(pod).Container("a")
			testutil.Assert(t, got == test.updates && now.Attempt == test.attempts,
				"%d updates and attempt %d, want %d and %d", got, now.Attempt, test.updates, test.attempts)
		})
	}
}

// TestResizeTellsTheSandbox: UpdatePodSandboxResources is called before the resources of any container change. The
// runtime may refuse it, or not implement it.
func TestResizeTellsTheSandbox(t *testing.T) {
	for _, test := range []struct {
		name   string
		err    error
		want   string
		failed bool
	}{
		{"taken", nil, "PodSandbox Container", false},
		{"unimplemented", status.Error(codes.Unimplemented, "unknown method"), "PodSandbox Container", false},
		{"refused", status.Error(codes.Internal, "no room in the machine"), "PodSandbox", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, pod := started(t, "app:a")
			container := b.status(pod).Containers[0]
			testutil.Must(t, b.opts.Allocation.SetActuated(pod.UID, &container, memory("64Mi")))
			pod.Spec.Containers[0].Resources = memory("128Mi")
			if test.err != nil {
				b.fake.InjectError("UpdatePodSandboxResources", test.err)
			}
			result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
			failed := result.ResizeErr != nil
			testutil.Assert(t, failed == test.failed && (err != nil) == failed, "%v, %v", result.ResizeErr, err)
			if failed := result.ResizeErr; failed != nil &&
				!strings.Contains(failed.Error(), "no room in the machine") {
				t.Error(failed)
			}
			var calls []string
			for _, call := range b.fake.GetCalls() {
				if what, ok := strings.CutPrefix(call, "Update"); ok {
					calls = append(calls, strings.TrimSuffix(what, "Resources"))
				}
			}
			testutil.Equal(t, strings.Join(calls, " "), test.want, "calls")
			b.sync(pod, Probes{})
			now, known := b.opts.Allocation.Actuated(pod.UID, &pod.Spec.Containers[0], &container)
			testutil.Assert(t, known && fmt.Sprint(now.Limits.Memory()) == "128Mi", "%v after another sync", now)
		})
	}
}
