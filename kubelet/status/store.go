package status

import (
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Store keeps each pod with its status. It is safe for concurrent use.
type Store struct {
	mu       sync.RWMutex
	pods     map[types.UID]*v1.Pod
	watchers map[chan struct{}]bool
}

// NewStore makes an empty store.
func NewStore() *Store {
	return &Store{pods: map[types.UID]*v1.Pod{}, watchers: map[chan struct{}]bool{}}
}

// Set keeps a pod with its status; both are copied.
func (s *Store) Set(pod *v1.Pod, status v1.PodStatus) {
	next := pod.DeepCopy()
	next.Status = *status.DeepCopy()
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.pods[pod.UID]; old != nil && equality.Semantic.DeepEqual(old, next) {
		return
	}
	s.pods[pod.UID] = next
	s.tell()
}

// Status returns the pod's status, or what the source said of a pod that has none yet.
func (s *Store) Status(pod *v1.Pod) v1.PodStatus {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if known := s.pods[pod.UID]; known != nil {
		return *known.Status.DeepCopy()
	}
	return *pod.Status.DeepCopy()
}

// Get returns the pod with its status, which must not be changed, or nil. A later Set that changes anything makes another
// pod, so that pointers tell whether something is new.
func (s *Store) Get(uid types.UID) *v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pods[uid]
}

// Forget drops a pod that no longer exists.
func (s *Store) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods[uid] != nil {
		delete(s.pods, uid)
		s.tell()
	}
}

// List returns all pods by namespace and name, the same that Get returns.
func (s *Store) List() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods := make([]*v1.Pod, 0, len(s.pods))
	for _, pod := range s.pods {
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+string(a.UID), b.Namespace+"/"+b.Name+"/"+string(b.UID))
	})
	return pods
}

// Watch returns a channel that receives a value after each change (several changes may be one value), until stop is
// called.
func (s *Store) Watch() (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[ch] = true
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, ch)
	}
}

// tell wakes the watchers. The caller holds mu.
func (s *Store) tell() {
	for ch := range s.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
