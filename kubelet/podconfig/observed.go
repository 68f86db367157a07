package podconfig

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// observed has the last lists of the sources, for the reader of updates. It has the role of pkg/kubelet/config's
// SourcesReady. It is safe for concurrent use, and no method blocks.
//
// A mirror pod is the API server's copy of a static pod. It is never in a PodUpdate, does not take the static pod's
// name, and is not checkpointed. A new, changed or deleted mirror pod causes a Reconcile of its static pod, so that the
// worker updates the mirror pod and its status. Mirror pods without a static pod are found by comparing them with the
// running pods. The API server's first list causes a Reconcile of all static pods, since their mirror pods were unknown
// before.
type observed struct {
	mu        sync.Mutex
	sources   map[string]map[types.UID]bool // UIDs in their last list
	completed map[string]bool               // sources with a completed Set
	mirrors   map[string]*v1.Pod            // by full name
}

func newObserved() *observed {
	return &observed{sources: map[string]map[types.UID]bool{}, completed: map[string]bool{},
		mirrors: map[string]*v1.Pod{}}
}

// begin adds the pods of a source before the updates are sent, because the reader of an update may call hasPod at once.
func (o *observed) begin(source string, pods []*v1.Pod) {
	uids := uidsOf(pods)
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.Copy(uids, o.sources[source])
	o.sources[source] = uids
}

// complete sets all pods of a source.
func (o *observed) complete(source string, pods []*v1.Pod) {
	uids := uidsOf(pods)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.completed[source], o.sources[source] = true, uids
}

func uidsOf(pods []*v1.Pod) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		uids[pod.UID] = true
	}
	return uids
}

func (o *observed) hasAll(sources []string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(sources, func(source string) bool { return !o.completed[source] })
}

func (o *observed) count() (pods int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, uids := range o.sources {
		pods += len(uids)
	}
	return pods
}

func (o *observed) hasPod(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, uids := range o.sources {
		if uids[uid] {
			return true
		}
	}
	return false
}

func (o *observed) mirrorPods() []*v1.Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	var mirrors []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(o.mirrors)) {
		mirrors = append(mirrors, o.mirrors[name])
	}
	return mirrors
}

// splitMirrors stores the mirror pods among the API server's pods. It returns the other pods. changed reports whether
// the mirror pod of that full name changed.
func (o *observed) splitMirrors(pods []*v1.Pod) (others []*v1.Pod, changed func(fullName string) bool) {
	mirrors := map[string]*v1.Pod{}
	for _, pod := range pods {
		if model.IsMirror(pod) {
			mirrors[model.FullName(pod)] = pod
		} else {
			others = append(others, pod)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before, first := o.mirrors, !o.completed[model.SourceAPI]
	o.mirrors = mirrors
	return others, func(name string) bool { return first || !sameMirror(before[name], mirrors[name]) }
}

func sameMirror(a, b *v1.Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}
