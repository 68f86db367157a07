package report

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/status"
)

// maxMessages is the limit for the termination messages of all containers of a pod together, in bytes, as in the
// kubelet.
const maxMessages = 12 << 10

// merged returns the status to send: the store's, with the server's values of fields that the kubelet does not own. The
// two pods are not changed.
func merged(shown, pod *v1.Pod) v1.PodStatus {
	next, server := normalised(pod, &pod.Status), &shown.Status
	next.Conditions = mergedConditions(server.Conditions, next.Conditions)
	next.NominatedNodeName = server.NominatedNodeName
	next.ResourceClaimStatuses = server.ResourceClaimStatuses
	next.ExtendedResourceClaimStatus = server.ExtendedResourceClaimStatus
	next.NodeAllocatableResourceClaimStatuses = server.NodeAllocatableResourceClaimStatuses
	// The start time never changes, even if a restarted kubelet has another one.
	next.StartTime = cmp.Or(server.StartTime, next.StartTime)
	if model.Terminal(server.Phase) && !model.Terminal(next.Phase) {
		// Another client ended the pod, and the pod's worker has not seen the terminal phase yet.
		next.Phase, next.Reason, next.Message = server.Phase, server.Reason, server.Message
	}
	next.QOSClass = cmp.Or(next.QOSClass, server.QOSClass)
	if model.IsStatic(pod) {
		observe(next, shown.Generation)
	}
	return *next
}

// observe sets the mirror pod's generation as the observed one. Static pods have no generation.
func observe(s *v1.PodStatus, generation int64) {
	s.ObservedGeneration = generation
	for i := range s.Conditions {
		if status.Owned(s.Conditions[i].Type) {
			s.Conditions[i].ObservedGeneration = generation
		}
	}
}

// mergedConditions keeps the server's order. Conditions that the kubelet does not own stay, and so does a true
// PodScheduled. A condition with the same status keeps its transition time.
func mergedConditions(server, ours []v1.PodCondition) []v1.PodCondition {
	var list []v1.PodCondition
	for _, old := range server {
		next := model.FindCondition(ours, old.Type)
		switch {
		case !status.Owned(old.Type) && !ended(next), old.Type == v1.PodScheduled && old.Status == v1.ConditionTrue:
			list = append(list, old)
		case next != nil && next.Status == old.Status && !old.LastTransitionTime.IsZero():
			kept := *next
			kept.LastTransitionTime = old.LastTransitionTime
			list = append(list, kept)
		case next != nil:
			list = append(list, *next)
		}
	}
	for _, next := range ours {
		if (status.Owned(next.Type) || ended(&next)) && model.FindCondition(list, next.Type) == nil {
			list = append(list, next)
		}
	}
	return list
}

// ended reports whether the kubelet set this condition because the node ends the pod. Other components set conditions
// of this type, too.
func ended(c *v1.PodCondition) bool {
	return c != nil && c.Type == v1.DisruptionTarget && c.Reason == v1.PodReasonTerminationByKubelet
}

// normalised returns a copy of a status as the server would return it, with times in whole seconds. Messages of ended
// containers share maxMessages.
func normalised(pod *v1.Pod, s *v1.PodStatus) *v1.PodStatus {
	out := s.DeepCopy()
	truncate := func(at *metav1.Time) { *at = at.Rfc3339Copy() }
	if out.StartTime != nil {
		truncate(out.StartTime)
	}
	for i := range out.Conditions {
		truncate(&out.Conditions[i].LastProbeTime)
		truncate(&out.Conditions[i].LastTransitionTime)
	}
	limit := maxMessages / max(1,
		len(pod.Spec.InitContainers)+len(pod.Spec.Containers)+len(pod.Spec.EphemeralContainers))
	for _, list := range [][]v1.ContainerStatus{out.InitContainerStatuses, out.ContainerStatuses,
		out.EphemeralContainerStatuses} {
		for i := range list {
			for _, state := range []*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Running != nil {
					truncate(&state.Running.StartedAt)
				}
				if end := state.Terminated; end != nil {
					truncate(&end.StartedAt)
					truncate(&end.FinishedAt)
					// the cut may be within a character
					end.Message = strings.ToValidUTF8(end.Message[:min(limit, len(end.Message))], "")
				}
			}
		}
	}
	return out
}
