package allocation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/jsonfile"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Manager keeps allocations. It is safe for concurrent use, but only the goroutine that admits pods may call Allocate
// and SetPending.
type Manager struct {
	path string

	mu      sync.Mutex
	pods    map[types.UID]*record
	pending map[types.UID]pendingResize
	// While batch is true, Batch writes the checkpoint instead of Allocate. dirty is true while the checkpoint is out
	// of date.
	batch, dirty bool
}

// record is a pod in the checkpoint.
type record struct {
	// Pod has the pod's own resources (KEP-2837), nil without any. They are not resized.
	Pod *v1.ResourceRequirements `json:"pod,omitempty"`
	// Allocated is by container name.
	Allocated map[string]v1.ResourceRequirements `json:"allocated,omitempty"`
	// Actuated is by container name. An entry is valid only for the container with its id.
	Actuated map[string]actuated `json:"actuated,omitempty"`
}

type actuated struct {
	ID        string                  `json:"id"`
	Resources v1.ResourceRequirements `json:"resources"`
}

// pendingResize has the reason why a resize waits, and the time when the wait began.
type pendingResize struct {
	why   v1.PodCondition
	since time.Time
}

// Open reads the checkpoint; a missing one is empty. If the checkpoint is unreadable, Open renames it to *.corrupt.
// Open then returns the error with an empty Manager that can be used.
func Open(path string) (*Manager, error) {
	m := &Manager{path: path, pods: map[types.UID]*record{}, pending: map[types.UID]pendingResize{}}
	if _, err := jsonfile.ReadOrMove(path, &m.pods); err != nil {
		m.pods = map[types.UID]*record{}
		return m, fmt.Errorf("allocated resources: %w", err)
	}
	maps.DeleteFunc(m.pods, func(_ types.UID, r *record) bool { return r == nil })
	return m, nil
}

// Allocated returns the pod with its allocated resources instead of the desired ones, or the pod itself if they are
// equal.
func (m *Manager) Allocated(pod *v1.Pod) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.pods[pod.UID]
	if known == nil || len(known.Allocated) == 0 {
		return pod
	}
	if !SamePodLevel(pod.Spec.Resources, known.Pod) {
		pod = pod.DeepCopy()
		pod.Spec.Resources = known.Pod.DeepCopy()
	}
	return withResources(pod, func(c *v1.Container) v1.ResourceRequirements {
		if granted, ok := known.Allocated[c.Name]; ok {
			return granted
		}
		return c.Resources
	})
}

// AdmittedWith is Allocated for a pod that an earlier process admitted. If the checkpoint does not have the pod, its
// running containers keep their actuated resources: the pod's spec may have changed since.
func (m *Manager) AdmittedWith(pod *v1.Pod, observed *model.PodStatus) *v1.Pod {
	if m.Known(pod.UID) {
		return m.Allocated(pod)
	}
	return withResources(pod, func(c *v1.Container) v1.ResourceRequirements {
		if container := observed.Container(c.Name); container != nil && container.State == model.StateRunning {
			if now, known := m.Actuated(pod.UID, c, container); known {
				return now
			}
		}
		return c.Resources
	})
}

// Known says whether the checkpoint has the pod's allocation.
func (m *Manager) Known(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid] != nil && m.pods[uid].Allocated != nil
}

// AllocatedPods returns Allocated of each pod.
func (m *Manager) AllocatedPods(pods []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, pod := range pods {
		out[i] = m.Allocated(pod)
	}
	return out
}

// Allocate makes the pod's desired resources its allocation, and writes the checkpoint if the allocation changed. From
// then on the pod keeps the allocation when its spec changes, and after a restart.
func (m *Manager) Allocate(pod *v1.Pod) error {
	granted := map[string]v1.ResourceRequirements{}
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) { granted[c.Name] = resizable(c.Resources) })
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.record(pod.UID)
	if equality.Semantic.DeepEqual(known.Allocated, granted) && SamePodLevel(known.Pod, pod.Spec.Resources) {
		return nil
	}
	known.Pod, known.Allocated = pod.Spec.Resources.DeepCopy(), granted
	if m.dirty = true; m.batch {
		return nil
	}
	return m.save()
}

// Batch calls allocate, and writes the checkpoint once for all its allocations: a synced write is slow, and many pods
// may come at once. After a crash before that write, AdmittedWith returns the resources of running pods.
func (m *Manager) Batch(allocate func()) error {
	m.mu.Lock()
	m.batch = true
	m.mu.Unlock()
	allocate()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batch = false
	if !m.dirty {
		return nil
	}
	return m.save()
}

// SetPending sets the condition PodResizePending, which says why the desired resources are not allocated. Nil removes
// it.
func (m *Manager) SetPending(uid types.UID, why *v1.PodCondition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if why == nil {
		delete(m.pending, uid)
		return
	}
	resize, waits := m.pending[uid]
	if !waits {
		resize.since = time.Now()
	}
	resize.why = *why
	m.pending[uid] = resize
}

// Pending is the condition PodResizePending of a pod, nil if no resize is pending.
func (m *Manager) Pending(uid types.UID) *v1.PodCondition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if resize, ok := m.pending[uid]; ok {
		return &resize.why
	}
	return nil
}

// AllPending are the pods with a pending resize, in the order in which they began to wait.
func (m *Manager) AllPending() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.pending), func(a, b types.UID) int {
		return cmp.Or(m.pending[a].since.Compare(m.pending[b].since), cmp.Compare(a, b))
	})
}

// Actuated returns the resources that the runtime has confirmed for a container: from SetActuated, or from its
// creation. A container that an earlier kubelet-core version created has neither record. Then its actual limits count,
// and spec supplies amounts that the runtime does not report. Known is false if there are no actual limits either.
func (m *Manager) Actuated(
	uid types.UID, spec *v1.Container, container *model.ContainerStatus,
) (resources v1.ResourceRequirements, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pod := m.pods[uid]; pod != nil {
		if last, ok := pod.Actuated[container.Name]; ok && last.ID == container.ID {
			return last.Resources, true
		}
	}
	switch {
	case container.Resources != nil:
		return *container.Resources, true
	case container.Actual != nil:
		return actual(spec.Resources, container.Actual), true
	default:
		return v1.ResourceRequirements{}, false
	}
}

// SetActuated records that the runtime has applied resources to a container, and writes the checkpoint.
func (m *Manager) SetActuated(
	uid types.UID, container *model.ContainerStatus, resources v1.ResourceRequirements,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	pod := m.record(uid)
	if pod.Actuated == nil {
		pod.Actuated = map[string]actuated{}
	}
	pod.Actuated[container.Name] = actuated{ID: container.ID, Resources: resizable(resources)}
	return m.save()
}

// Keep drops the records of pods that do not exist, even of pods that ended while no kubelet ran. It writes the
// checkpoint if Keep or Forget has dropped a pod, or if an earlier write failed.
func (m *Manager) Keep(exists func(types.UID) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.pods)
	maps.DeleteFunc(m.pods, func(uid types.UID, _ *record) bool { return !exists(uid) })
	if len(m.pods) == before && !m.dirty {
		return nil
	}
	return m.save()
}

// Forget drops the record of a pod. The next write of the checkpoint, by Keep at the latest, removes it on disk.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, uid)
	if m.pods[uid] != nil {
		delete(m.pods, uid)
		m.dirty = true
	}
}

// record returns the record of a pod, a new one if there is none. The caller holds mu.
func (m *Manager) record(uid types.UID) *record {
	if m.pods[uid] == nil {
		m.pods[uid] = &record{}
	}
	return m.pods[uid]
}

// save writes the checkpoint. The caller holds mu.
func (m *Manager) save() error {
	err := jsonfile.Save(m.path, "allocated resources", m.pods)
	m.dirty = err != nil
	return err
}
