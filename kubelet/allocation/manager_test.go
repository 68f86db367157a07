package allocation

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

func withLimit(memory string) *v1.Pod {
	pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a app:b")
	if memory != "" {
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	}
	return pod
}

func limit(pod *v1.Pod) string { return pod.Spec.Containers[0].Resources.Limits.Memory().String() }

// TestAllocationsSurvive: allocated and actuated resources survive a restart of the kubelet.
func TestAllocationsSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "allocated")
	m, err := Open(path)
	testutil.Must(t, err)
	before, desired := withLimit("64Mi"), withLimit("128Mi")
	got := m.Allocated(desired)
	testutil.Assert(t, got == desired, "a pod without an allocation does not keep its desired resources")
	container := &model.ContainerStatus{ID: "1", Name: "a"}
	testutil.Must(t, m.Allocate(before))
	testutil.Must(t, m.SetActuated(before.UID, container, before.Spec.Containers[0].Resources))
	for range 2 {
		got := limit(m.Allocated(desired))
		testutil.Assert(t, got == "64Mi" && limit(desired) == "128Mi", "allocated limit %s", got)
		now, known := m.Actuated(before.UID, &before.Spec.Containers[0], container)
		testutil.Assert(t, known && now.Limits.Memory().String() == "64Mi", "actuated resources %v, %v", now, known)
		made := desired.Spec.Containers[0].Resources
		now, known = m.Actuated(before.UID, &before.Spec.Containers[0],
			&model.ContainerStatus{ID: "2", Name: "a", Resources: &made})
		testutil.Assert(t, known && now.Limits.Memory().String() == "128Mi", "another container has %v, %v", now, known)
		m, err = Open(path)
		testutil.Must(t, err)
	}
	m.Forget(before.UID)
	testutil.Assert(t, m.Allocated(desired) == desired, "the pod is not forgotten")
	testutil.Must(t, m.Keep(func(types.UID) bool { return true }))
	m, err = Open(path)
	testutil.Assert(t, err == nil && !m.Known(before.UID), "after a restart: %v, the pod is not forgotten", err)
}

// TestFailedWriteIsRepeated: Keep writes what an earlier Keep could not write.
func TestFailedWriteIsRepeated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	testutil.Must(t, os.Mkdir(dir, 0o700))
	path, pod := filepath.Join(dir, "allocated"), withLimit("64Mi")
	m, err := Open(path)
	testutil.Must(t, err)
	testutil.Must(t, m.Allocate(pod))
	testutil.Must(t, os.Rename(dir, dir+".away"))
	err = m.Keep(func(types.UID) bool { return false })
	testutil.Assert(t, err != nil, "the checkpoint was written into a missing directory")
	testutil.Must(t, os.Rename(dir+".away", dir))
	testutil.Must(t, m.Keep(func(types.UID) bool { return false }))
	again, err := Open(path)
	testutil.Assert(t, err == nil && !again.Known(pod.UID), "the dropped pod is in the checkpoint: %v", err)
}

// TestBatchIsWrittenOnce: a batch writes the checkpoint once, after its last allocation. A batch without an allocation
// does not write it.
func TestBatchIsWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "allocated")
	m, err := Open(path)
	testutil.Must(t, err)
	err = m.Batch(func() {
		for _, uid := range []types.UID{"a", "b"} {
			pod := withLimit("64Mi")
			pod.UID = uid
			err := m.Allocate(pod)
			testutil.Assert(t, err == nil && m.Known(uid), "%s: %v", uid, err)
			testutil.Gone(t, path, "the checkpoint is written before the end of the batch")
		}
	})
	again, openErr := Open(path)
	testutil.Assert(t, err == nil && openErr == nil && again.Known("a") && again.Known("b"),
		"%v, %v: the checkpoint lacks pods", err, openErr)
	testutil.Must(t, os.Remove(path))
	testutil.Must(t, m.Batch(func() {}))
	testutil.Gone(t, path, "an empty batch writes the checkpoint")
	testutil.Must(t, m.Allocate(withLimit("1Mi")))
	testutil.Exists(t, path, "after the batch")
}

// TestCorruptCheckpoint: a corrupt checkpoint is renamed, and allocations go on without it.
func TestCorruptCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "allocated")
	testutil.Must(t, os.WriteFile(path, []byte("{"), 0o600))
	m, err := Open(path)
	testutil.Require(t, err != nil && m != nil, "%v, %v", m, err)
	testutil.Exists(t, path+".corrupt")
	testutil.Must(t, m.Allocate(withLimit("1Mi")))
}

// TestMeanwhile: the pod's cgroup has room for the old and the new limits during a resize.
func TestMeanwhile(t *testing.T) {
	for _, c := range []struct{ allocated, actuated, want string }{
		{"64Mi", "32Mi", "64Mi"}, {"32Mi", "64Mi", "64Mi"}, {"64Mi", "", "0"}, {"", "64Mi", "0"},
		{"64Mi", "64Mi", "64Mi"},
	} {
		pod := withLimit(c.allocated)
		now := withLimit(c.actuated).Spec.Containers[0].Resources
		got := Meanwhile(pod, func(c *v1.Container) (v1.ResourceRequirements, bool) { return now, c.Name == "a" })
		testutil.Assert(t, limit(got) == c.want, "%+v: %s", c, limit(got))
		testutil.Assert(t, c.allocated != c.actuated || got == pod, "a pod without a resize was copied")
	}
}

// TestMeanwhileKeepsTheClass: the QoS class of a guaranteed pod stays, because it is part of the cgroup's name.
func TestMeanwhileKeepsTheClass(t *testing.T) {
	of := func(memory string) *v1.Pod {
		amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"),
			v1.ResourceMemory: resource.MustParse(memory)}
		pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts.DeepCopy(), Limits: amounts}
		return pod
	}
	for _, c := range []struct{ allocated, actuated string }{{"32Mi", "64Mi"}, {"64Mi", "32Mi"}} {
		now := of(c.actuated).Spec.Containers[0].Resources
		got := Meanwhile(of(c.allocated), func(*v1.Container) (v1.ResourceRequirements, bool) { return now, true })
		class := model.QOS(got)
		testutil.Assert(t, class == v1.PodQOSGuaranteed && limit(got) == "64Mi",
			"%+v: %s with the limit %s", c, class, limit(got))
	}
}
