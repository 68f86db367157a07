package status

import (
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Manager keeps each pod with its status. It is safe for concurrent use.
type Manager struct {
	mu       sync.RWMutex
	pods     map[types.UID]*v1.Pod
	held     map[types.UID]bool
	watchers map[chan struct{}]bool
}

// NewManager makes an empty Manager.
func NewManager() *Manager {
	return &Manager{pods: map[types.UID]*v1.Pod{}, held: map[types.UID]bool{}, watchers: map[chan struct{}]bool{}}
}

// Set keeps copies of a pod and its status.
func (m *Manager) Set(pod *v1.Pod, status v1.PodStatus) { m.set(pod, status, false) }

// Hold keeps a status that may be out of date. The status is not sent to the API server until the pod's next Set.
func (m *Manager) Hold(pod *v1.Pod, status v1.PodStatus) { m.set(pod, status, true) }

// Held says whether a pod's status must not be sent to the API server.
func (m *Manager) Held(uid types.UID) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.held[uid]
}

func (m *Manager) set(pod *v1.Pod, status v1.PodStatus, hold bool) {
	next := pod.DeepCopy()
	next.Status = *status.DeepCopy()
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.pods[pod.UID]
	if m.held[pod.UID] == hold && old != nil && equality.Semantic.DeepEqual(old, next) {
		return
	}
	m.pods[pod.UID] = next
	delete(m.held, pod.UID)
	if hold {
		m.held[pod.UID] = true
	}
	m.notify()
}

// Status returns the kept status of the pod, or the status from its source if none is kept.
func (m *Manager) Status(pod *v1.Pod) v1.PodStatus {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if known := m.pods[pod.UID]; known != nil {
		return *known.Status.DeepCopy()
	}
	return *pod.Status.DeepCopy()
}

// Get returns the pod with its status, or nil. The caller must not change it. A Set that changes anything makes a new
// pointer, so callers can compare pointers.
func (m *Manager) Get(uid types.UID) *v1.Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pods[uid]
}

// Forget drops a pod that no longer exists.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] != nil {
		delete(m.pods, uid)
		delete(m.held, uid)
		m.notify()
	}
}

// List returns all pods, sorted by namespace and name. They are the same pointers as from Get.
func (m *Manager) List() []*v1.Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	pods := slices.AppendSeq(make([]*v1.Pod, 0, len(m.pods)), maps.Values(m.pods))
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+string(a.UID), b.Namespace+"/"+b.Name+"/"+string(b.UID))
	})
	return pods
}

// Watch returns a channel that receives a value after a change, until stop is called. Several changes may share a
// value.
func (m *Manager) Watch() (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers[ch] = true
	return ch, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, ch)
	}
}

// notify wakes the watchers. The caller holds mu.
func (m *Manager) notify() {
	for ch := range m.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
