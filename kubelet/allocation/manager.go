package allocation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Manager keeps allocations. It is safe for concurrent use; only one goroutine at a time may call Allocate and
// SetPending, the one that admits pods.
type Manager struct {
	path string

	mu      sync.Mutex
	pods    map[types.UID]*record
	pending map[types.UID]pendingResize
	// batch says that Allocate leaves the writing to Batch, dirty that the checkpoint is behind.
	batch, dirty bool
}

// record is what the checkpoint has of a pod.
type record struct {
	// Allocated is by container name.
	Allocated map[string]v1.ResourceRequirements `json:"allocated,omitempty"`
	// Actuated is by container name, for the container of that id.
	Actuated map[string]actuated `json:"actuated,omitempty"`
}

type actuated struct {
	ID        string                  `json:"id"`
	Resources v1.ResourceRequirements `json:"resources"`
}

// pendingResize is why a resize waits, and since when.
type pendingResize struct {
	why   v1.PodCondition
	since time.Time
}

// Open reads the checkpoint; a missing one is empty. One that cannot be read is renamed to *.corrupt and is an error:
// go on with what is returned, the pods get what they ask for.
func Open(path string) (*Manager, error) {
	m := &Manager{path: path, pods: map[types.UID]*record{}, pending: map[types.UID]pendingResize{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &m.pods)
	}
	if err != nil {
		m.pods = map[types.UID]*record{}
		return m, errors.Join(fmt.Errorf("allocated resources: %s: %w", path, err), os.Rename(path, path+".corrupt"))
	}
	maps.DeleteFunc(m.pods, func(_ types.UID, r *record) bool { return r == nil })
	return m, nil
}

// Allocated is the pod with its allocated resources instead of the desired ones; the pod itself where both are the same.
func (m *Manager) Allocated(pod *v1.Pod) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.pods[pod.UID]
	if known == nil || len(known.Allocated) == 0 {
		return pod
	}
	return with(pod, func(c *v1.Container) v1.ResourceRequirements {
		if granted, ok := known.Allocated[c.Name]; ok {
			return granted
		}
		return c.Resources
	})
}

// Restored is what Allocated returns; of a pod that an earlier process admitted and of which nothing is noted, it has what
// its running containers were given, not what the pod may have begun to ask for since.
func (m *Manager) Restored(pod *v1.Pod, observed *model.PodStatus) *v1.Pod {
	if m.Known(pod.UID) {
		return m.Allocated(pod)
	}
	return with(pod, func(c *v1.Container) v1.ResourceRequirements {
		if container := observed.Container(c.Name); container != nil && container.State == model.StateRunning {
			if now, known := m.Actuated(pod.UID, c, container); known {
				return now
			}
		}
		return c.Resources
	})
}

// Known says whether the pod's allocation is noted.
func (m *Manager) Known(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid] != nil && m.pods[uid].Allocated != nil
}

// AllocatedPods are the pods, each as Allocated has it.
func (m *Manager) AllocatedPods(pods []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, pod := range pods {
		out[i] = m.Allocated(pod)
	}
	return out
}

// Allocate grants a pod what it asks for. It also pins what a pod has while it asks for something else: after a restart
// it is the same. It costs nothing for a pod that has it already.
func (m *Manager) Allocate(pod *v1.Pod) error {
	granted := map[string]v1.ResourceRequirements{}
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) { granted[c.Name] = resizable(c.Resources) })
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.record(pod.UID)
	if equality.Semantic.DeepEqual(known.Allocated, granted) {
		return nil
	}
	known.Allocated = granted
	if m.dirty = true; m.batch {
		return nil
	}
	return m.save()
}

// Batch writes what do allocates once, after it: a write that is safe on the disk takes long, and many pods may come at
// once. After a crash in between, what runs of them is seen by what it was made with, see Restored.
func (m *Manager) Batch(do func()) error {
	m.mu.Lock()
	m.batch = true
	m.mu.Unlock()
	do()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batch = false
	if !m.dirty {
		return nil
	}
	return m.save()
}

// SetPending notes, as the condition PodResizePending, why what a pod desires is not allocated; nil that it is.
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

// Pending is the condition PodResizePending of a pod, nil when nothing is.
func (m *Manager) Pending(uid types.UID) *v1.PodCondition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if resize, ok := m.pending[uid]; ok {
		return &resize.why
	}
	return nil
}

// AllPending are the pods whose resize is pending, the one that has waited longest first.
func (m *Manager) AllPending() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.pending), func(a, b types.UID) int {
		return cmp.Or(m.pending[a].since.Compare(m.pending[b].since), cmp.Compare(a, b))
	})
}

// Actuated is what the runtime has confirmed of a container: what was noted, or what the container was made with. Of one
// of an earlier version that says neither it is what the runtime shows to be in force; what cannot be seen is as spec
// has it. Known is false where the runtime does not show that either.
func (m *Manager) Actuated(uid types.UID, spec *v1.Container, container *model.ContainerStatus) (resources v1.ResourceRequirements, known bool) {
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
	case container.Applied != nil:
		return inForce(spec.Resources, container.Applied), true
	default:
		return v1.ResourceRequirements{}, false
	}
}

// SetActuated notes that the runtime has applied resources to a container.
func (m *Manager) SetActuated(uid types.UID, container *model.ContainerStatus, resources v1.ResourceRequirements) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	pod := m.record(uid)
	if pod.Actuated == nil {
		pod.Actuated = map[string]actuated{}
	}
	pod.Actuated[container.Name] = actuated{ID: container.ID, Resources: resizable(resources)}
	return m.save()
}

// Keep drops what is noted of pods that are gone, such as those that went while no process was there to Forget them.
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

// Forget drops what is known of a pod that is gone. The checkpoint follows with the next write, or with Keep: nobody asks
// it for that pod before.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, uid)
	if m.pods[uid] != nil {
		delete(m.pods, uid)
		m.dirty = true
	}
}

// record is the one of a pod, made where it is missing. The caller holds mu.
func (m *Manager) record(uid types.UID) *record {
	if m.pods[uid] == nil {
		m.pods[uid] = &record{}
	}
	return m.pods[uid]
}

// save writes the checkpoint. The caller holds mu.
func (m *Manager) save() error {
	raw, err := json.MarshalIndent(m.pods, "", "  ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(m.path, raw, 0o600, renameio.WithTempDir(filepath.Dir(m.path))); err != nil {
		return fmt.Errorf("allocated resources: %w", err)
	}
	m.dirty = false
	return nil
}
