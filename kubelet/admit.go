package kubelet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/status"
)

// refreshTimeout bounds how long a pod waits for the node's newest labels.
const refreshTimeout = 2 * time.Second

// rejections are the pods that the node did not take. It is safe for concurrent use.
type rejections struct {
	mu   sync.RWMutex
	pods map[types.UID]*v1.Pod
}

func (r *rejections) has(uid types.UID) bool { return r.get(uid) != nil }

// get returns a rejected pod, or nil.
func (r *rejections) get(uid types.UID) *v1.Pod {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pods[uid]
}

func (r *rejections) list() []*v1.Pod {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.pods))
}

func (r *rejections) add(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.UID] = pod
}

// keep forgets the pods that nobody names any more.
func (r *rejections) keep(named func(types.UID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.pods, func(uid types.UID, _ *v1.Pod) bool { return !named(uid) })
}

// inTurn puts pods in the order in which they find room: those that were taken before, then the oldest.
func (k *Kubelet) inTurn(pods []*v1.Pod) {
	late := map[*v1.Pod]int{}
	for _, pod := range pods {
		if !k.admittedBefore(pod) {
			late[pod] = 1
		}
	}
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(late[a]-late[b], a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
}

// admit says whether the node takes a pod. One that it does not take has failed: it is shown so, and never started.
func (k *Kubelet) admit(ctx context.Context, pod *v1.Pod) bool {
	if model.Terminal(pod.Status.Phase) {
		return true // there is nothing to start
	}
	in := admission.Input{Node: k.node.Node(), Running: k.taken(), Pod: pod, Admitted: k.admittedBefore(pod)}
	rejection := admission.Check(in)
	if rejection != nil && rejection.Reason == admission.ReasonNodeAffinity && k.server != nil {
		in.Node, in.Admitted = k.newestNode(ctx, pod)
		rejection = admission.Check(in)
	}
	if rejection == nil {
		return true
	}
	k.reject(pod, *rejection)
	return false
}

// newestNode asks the server for the node; without the server it is as it was seen last. Believed says that nobody here
// knows the node's labels yet, because the server was not there since the start: then the scheduler is believed that they
// suit the pod.
func (k *Kubelet) newestNode(ctx context.Context, pod *v1.Pod) (node *v1.Node, believed bool) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	node, err := k.node.Refresh(ctx)
	return node, err != nil && k.registeredNode() == nil && !model.IsStatic(pod)
}

// reject shows a pod as failed, and remembers never to start it.
func (k *Kubelet) reject(pod *v1.Pod, why admission.Rejection) {
	k.rejected.add(pod)
	k.status.Set(pod, status.Rejected(pod, why.Reason, why.Message, time.Now()))
	k.events.Record(events.Event{Pod: pod, Warning: true, Reason: why.Reason, Message: why.Message})
}

// admittedBefore says whether the pod was taken by an earlier process: then the runtime shows it, or the API server has
// the time at which it was taken.
func (k *Kubelet) admittedBefore(pod *v1.Pod) bool {
	_, there := k.pleg.Pods()[pod.UID]
	return there || pod.Status.StartTime != nil
}

// taken are the pods that the node has taken and that have not ended. One that its source no longer names does not count,
// as with the kubelet: a static pod that is edited would lose its ports to its own past.
func (k *Kubelet) taken() []*v1.Pod {
	var pods []*v1.Pod
	for _, known := range k.workers.Pods() {
		if !known.Gone && known.State != podworkers.Finished && !model.Terminal(k.status.Status(known.Pod).Phase) {
			pods = append(pods, known.Pod)
		}
	}
	return pods
}
