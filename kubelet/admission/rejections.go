package admission

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Rejections has the rejected pods. It is safe for concurrent use.
type Rejections struct {
	mu   sync.RWMutex
	pods map[types.UID]*v1.Pod
}

// NewRejections makes an empty set.
func NewRejections() *Rejections { return &Rejections{pods: map[types.UID]*v1.Pod{}} }

// Has reports whether a pod was rejected.
func (r *Rejections) Has(uid types.UID) bool { return r.Get(uid) != nil }

// Get returns a rejected pod, or nil.
func (r *Rejections) Get(uid types.UID) *v1.Pod {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pods[uid]
}

// AppendTo appends the rejected pods whose full name is not in pods.
func (r *Rejections) AppendTo(pods []*v1.Pod) []*v1.Pod {
	names := map[string]bool{}
	for _, pod := range pods {
		names[model.FullName(pod)] = true
	}
	for _, pod := range r.list() {
		if !names[model.FullName(pod)] {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (r *Rejections) list() []*v1.Pod {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.pods))
}

func (r *Rejections) add(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.UID] = pod
}

// Forget drops a pod that its source no longer lists. If it comes back, Admit checks it again.
func (r *Rejections) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// Keep drops the pods that no source lists.
func (r *Rejections) Keep(listed func(types.UID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.pods, func(uid types.UID, _ *v1.Pod) bool { return !listed(uid) })
}
