package podconfig

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// diff returns the updates from before to after. Removals come first, since they free names.
func diff(source string, before, after map[types.UID]*v1.Pod) []PodUpdate {
	byOp := map[PodOperation][]*v1.Pod{}
	for uid, old := range before {
		if after[uid] == nil {
			byOp[Remove] = append(byOp[Remove], old)
		}
	}
	for uid, pod := range after {
		if op := change(before[uid], pod); op != "" {
			byOp[op] = append(byOp[op], pod)
		}
	}
	var updates []PodUpdate
	for _, op := range []PodOperation{Remove, Delete, Add, Update, Reconcile} {
		pods := byOp[op]
		if len(pods) == 0 {
			continue
		}
		slices.SortFunc(pods, byName)
		for i := range pods {
			pods[i] = pods[i].DeepCopy()
		}
		updates = append(updates, PodUpdate{Op: op, Source: source, Pods: pods})
	}
	return updates
}

func byName(a, b *v1.Pod) int { return strings.Compare(model.FullName(a), model.FullName(b)) }

// change returns the operation for one pod, or "".
func change(old, pod *v1.Pod) PodOperation {
	switch {
	case old == nil && pod.DeletionTimestamp == nil:
		return Add
	case pod.DeletionTimestamp != nil && !sameDeletion(old, pod):
		return Delete
	case !sameDesired(old, pod):
		if pod.DeletionTimestamp != nil {
			return Delete // a pod that is being deleted gets a new specification by Delete
		}
		return Update
	case !equality.Semantic.DeepEqual(old.Status, pod.Status), model.Restored(old) && !model.Restored(pod):
		return Reconcile
	default:
		return ""
	}
}

// sameDeletion reports whether old was already being deleted, with the same grace period.
func sameDeletion(old, pod *v1.Pod) bool {
	return old != nil && old.DeletionTimestamp != nil &&
		equality.Semantic.DeepEqual(old.DeletionGracePeriodSeconds, pod.DeletionGracePeriodSeconds)
}

// sameDesired compares everything that a source can request. It ignores the time at which the source read the pod.
func sameDesired(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(desiredAnnotations(a.Annotations), desiredAnnotations(b.Annotations))
}

func desiredAnnotations(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	delete(out, model.AnnotationConfigSeen)
	return out
}
