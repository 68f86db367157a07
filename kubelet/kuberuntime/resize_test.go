package kuberuntime

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

func memory(limit string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}}
}

// TestComputeResizes has what differs changed in place, or the container replaced where its resizePolicy says so.
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
		got := told(computePodActions(pod, statusOf("sandbox", "a=running"), Probes{}, func(types.UID, *model.ContainerStatus) (v1.ResourceRequirements, bool) {
			return memory(test.now), true
		}))
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestResize changes a running container once, refuses a limit below what it uses, and tries a failure again.
func TestResize(t *testing.T) {
	b := newBench(t)
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
	b.sync(pod, Probes{})
	container := b.status(pod).Containers[0]
	if err := b.opts.Allocation.SetActuated(pod.UID, &container, memory("64Mi")); err != nil {
		t.Fatal(err)
	}
	updates := func() int {
		return len(slices.DeleteFunc(b.fake.GetCalls(), func(call string) bool { return call != "UpdateContainerResources" }))
	}
	pod.Spec.Containers[0].Resources = memory("128Mi")
	b.fake.InjectError("UpdateContainerResources", errors.New("not now"))
	if result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{}); err == nil || result.ResizeErr == nil {
		t.Error("an update that fails is no error")
	}
	for range 2 {
		b.sync(pod, Probes{})
	}
	if got := updates(); got != 2 {
		t.Errorf("%d updates, want one that failed and one more", got)
	}
	b.fake.SetFakeContainerStats([]*runtimeapi.ContainerStats{{
		Attributes: &runtimeapi.ContainerAttributes{Id: container.ID},
		Memory:     &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: 48 << 20}},
	}})
	pod.Spec.Containers[0].Resources = memory("32Mi")
	if result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{}); err == nil || result.ResizeErr == nil ||
		!strings.Contains(result.ResizeErr.Error(), "in use") || updates() != 2 {
		t.Errorf("a limit below what is in use: %v, %d updates", err, updates())
	}
	pod.Spec.Containers[0].Resources = memory("50Mi")
	b.sync(pod, Probes{})
	if now, known := b.opts.Allocation.Actuated(pod.UID, &container); !known || now.Limits.Memory().String() != "50Mi" || updates() != 3 {
		t.Errorf("it has %v after %d updates", now, updates())
	}
}
