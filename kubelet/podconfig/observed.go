package podconfig

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// observed is what the sources listed last, for the reader of updates; pkg/kubelet/config's SourcesReady is a part of
// it. It is safe for concurrent use, and no method waits for anything.
//
// A mirror pod is the API server's picture of a static pod. It is not a pod to run: it never gets into a PodUpdate, it
// takes no name away from the static pod, and it is not checkpointed. When one comes, changes or goes, the static pod
// of its name gets a Reconcile, so that its worker sees to the mirror and its status. Mirrors without a static pod are
// found by comparing them with what runs. When the API server's pods are set for the first time, all static pods get a
// Reconcile: before, nobody could know which of them have a mirror.
type observed struct {
	mu        sync.Mutex
	sources   map[string]map[types.UID]bool // UIDs that each listed
	completed map[string]bool               // sources that have completed a Set
	mirrors   map[string]*v1.Pod            // by full name
}

func newObserved() *observed {
	return &observed{sources: map[string]map[types.UID]bool{}, completed: map[string]bool{}, mirrors: map[string]*v1.Pod{}}
}

// begin adds to the pods of a source, before an update has them: who receives that asks hasPod at once.
func (o *observed) begin(source string, pods []*v1.Pod) {
	uids := uidsOf(pods)
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.Copy(uids, o.sources[source])
	o.sources[source] = uids
}

// complete says that a source has set its pods, which are all that it has.
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

// splitMirrors keeps the mirrors among the API server's pods. It returns the other pods, and whether the mirror of a
// static pod changed, by full name.
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
