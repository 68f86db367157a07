package allocation

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

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

// TestAllocationsSurvive a restart: what was granted, and what the runtime has confirmed of the container that it was.
func TestAllocationsSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "allocated")
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	before, desired := withLimit("64Mi"), withLimit("128Mi")
	if got := m.Allocated(desired); got != desired {
		t.Error("a pod that was never resized has something else than it asks for")
	}
	container := &model.ContainerStatus{ID: "1", Name: "a"}
	if err := m.Allocate(before); err != nil {
		t.Fatal(err)
	}
	if err := m.SetActuated(before.UID, container, before.Spec.Containers[0].Resources); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := limit(m.Allocated(desired)); got != "64Mi" || limit(desired) != "128Mi" {
			t.Errorf("it is allocated %s", got)
		}
		if now, known := m.Actuated(before.UID, &before.Spec.Containers[0], container); !known || now.Limits.Memory().String() != "64Mi" {
			t.Errorf("it has %v, %v", now, known)
		}
		made := desired.Spec.Containers[0].Resources
		if now, known := m.Actuated(before.UID, &before.Spec.Containers[0], &model.ContainerStatus{ID: "2", Name: "a", Resources: &made}); !known || now.Limits.Memory().String() != "128Mi" {
			t.Errorf("another container has %v, %v", now, known)
		}
		if m, err = Open(path); err != nil {
			t.Fatal(err)
		}
	}
	m.Forget(before.UID)
	if m.Allocated(desired) != desired {
		t.Error("it is not forgotten")
	}
	if err := m.Keep(func(types.UID) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if m, err = Open(path); err != nil || m.Known(before.UID) {
		t.Errorf("after a restart: %v, it is not forgotten", err)
	}
}

// TestBatchIsWrittenOnce after all pods that come together have what they are allocated.
func TestBatchIsWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "allocated")
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Batch(func() {
		for _, uid := range []types.UID{"a", "b"} {
			pod := withLimit("64Mi")
			pod.UID = uid
			if err := m.Allocate(pod); err != nil || !m.Known(uid) {
				t.Errorf("%s: %v", uid, err)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("it is written before all have come: %v", err)
			}
		}
	})
	again, openErr := Open(path)
	if err != nil || openErr != nil || !again.Known("a") || !again.Known("b") {
		t.Errorf("%v, %v: not all are written", err, openErr)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := m.Batch(func() {}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("nothing is written again")
	}
	if err := m.Allocate(withLimit("1Mi")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("after the batch: %v", err)
	}
}

// TestCorruptCheckpoint is set aside, and nothing is allocated otherwise than asked for.
func TestCorruptCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "allocated")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path)
	if err == nil || m == nil {
		t.Fatalf("%v, %v", m, err)
	}
	if _, err := os.Stat(path + ".corrupt"); err != nil {
		t.Error(err)
	}
	if err := m.Allocate(withLimit("1Mi")); err != nil {
		t.Error(err)
	}
}

// TestMeanwhile has room for the old and the new limits: a cgroup that is raised too late or lowered too early would
// kill or refuse.
func TestMeanwhile(t *testing.T) {
	for _, c := range []struct{ allocated, actuated, want string }{
		{"64Mi", "32Mi", "64Mi"}, {"32Mi", "64Mi", "64Mi"}, {"64Mi", "", "0"}, {"", "64Mi", "0"}, {"64Mi", "64Mi", "64Mi"},
	} {
		pod := withLimit(c.allocated)
		now := withLimit(c.actuated).Spec.Containers[0].Resources
		got := Meanwhile(pod, func(c *v1.Container) (v1.ResourceRequirements, bool) { return now, c.Name == "a" })
		if limit(got) != c.want {
			t.Errorf("%+v: %s", c, limit(got))
		}
		if c.allocated == c.actuated && got != pod {
			t.Error("a pod without a resize was copied")
		}
	}
}

// TestMeanwhileKeepsTheClass of a guaranteed pod: its cgroup has the class in its name.
func TestMeanwhileKeepsTheClass(t *testing.T) {
	of := func(memory string) *v1.Pod {
		amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse(memory)}
		pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts.DeepCopy(), Limits: amounts}
		return pod
	}
	for _, c := range []struct{ allocated, actuated string }{{"32Mi", "64Mi"}, {"64Mi", "32Mi"}} {
		now := of(c.actuated).Spec.Containers[0].Resources
		got := Meanwhile(of(c.allocated), func(*v1.Container) (v1.ResourceRequirements, bool) { return now, true })
		if class := model.QOS(got); class != v1.PodQOSGuaranteed || limit(got) != "64Mi" {
			t.Errorf("%+v: %s with the limit %s", c, class, limit(got))
		}
	}
}
