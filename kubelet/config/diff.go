package config

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// diff is what leads from the pods of before to those of after. Removals come first: they free names.
func diff(source string, before, after map[types.UID]*v1.Pod) []Update {
	byOp := map[Op][]*v1.Pod{}
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
	var updates []Update
	for _, op := range []Op{Remove, Delete, Add, Change, Reconcile} {
		pods := byOp[op]
		if len(pods) == 0 {
			continue
		}
		slices.SortFunc(pods, byName)
		for i := range pods {
			pods[i] = pods[i].DeepCopy()
		}
		updates = append(updates, Update{Op: op, Source: source, Pods: pods})
	}
	return updates
}

func byName(a, b *v1.Pod) int { return strings.Compare(model.FullName(a), model.FullName(b)) }

// change is what happened to one pod, empty for nothing.
func change(old, pod *v1.Pod) Op {
	switch {
	case old == nil && pod.DeletionTimestamp == nil:
		return Add
	case pod.DeletionTimestamp != nil && !sameEnd(old, pod):
		return Delete
	case !sameWish(old, pod):
		if pod.DeletionTimestamp != nil {
			return Delete // it ends all the same, with its newest description
		}
		return Change
	case !equality.Semantic.DeepEqual(old.Status, pod.Status):
		return Reconcile
	default:
		return ""
	}
}

// sameEnd says whether old was to end already, as soon as pod, which is to.
func sameEnd(old, pod *v1.Pod) bool {
	return old != nil && old.DeletionTimestamp != nil &&
		equality.Semantic.DeepEqual(old.DeletionGracePeriodSeconds, pod.DeletionGracePeriodSeconds)
}

// sameWish compares all that a source can ask for. When a pod was seen says nothing of what it should be.
func sameWish(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(wished(a.Annotations), wished(b.Annotations))
}

func wished(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	delete(out, model.AnnotationConfigSeen)
	return out
}
