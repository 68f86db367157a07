package status

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Input has everything that a pod's status depends on. Pod and Runtime are required.
type Input struct {
	// Pod has the API server's status. Conditions that the kubelet does not own (see Owned) are copied from there. A
	// terminal phase is copied, too, with its reason.
	Pod     *v1.Pod
	Runtime *model.PodStatus
	// RuntimeName is the scheme of container ids.
	RuntimeName string
	// Old is the previous status. It has the states of containers that the runtime no longer lists, and the times of
	// transitions.
	Old v1.PodStatus
	// Waiting has the last sync's reason why a container does not run, by container name. Nil means that no sync has
	// ended since Old: a waiting container keeps its reason.
	Waiting map[string]*model.ReasonError
	// Ready and Started have the ids of running containers that passed their probes or have none.
	Ready, Started map[string]bool
	// Resize is the state of the pod's resize. The specification in Pod has the allocated resources.
	Resize Resize
	// HostIPs are the node's addresses, the primary one first.
	HostIPs []string
	// Ending says that the pod is being ended and no container starts any more. The status is final once no container
	// runs: the phase is Succeeded or Failed, and containers whose end was not observed count as failed.
	Ending bool
	// Stopping says that the sandbox of an ending pod is not stopped yet. A start that is under way may still succeed,
	// so the status is not final even if no container runs.
	Stopping bool
	// Now is the time of transitions.
	Now time.Time
}

// Generate makes the status.
func Generate(in Input) v1.PodStatus {
	status := v1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		QOSClass:           model.QOS(in.Pod),
		StartTime:          cmp.Or(in.Old.StartTime, in.began()),
		Reason:             in.Old.Reason,
		Message:            in.Old.Message,
	}
	if model.Terminal(in.Pod.Status.Phase) && !model.Terminal(in.Old.Phase) {
		status.Reason, status.Message = in.Pod.Status.Reason, in.Pod.Status.Message
	}
	initialized := initializedByRuntime(in)
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		status.InitContainerStatuses = append(status.InitContainerStatuses,
			in.container(c, model.InitKind(c), model.FindStatus(&in.Old, c.Name), initialized))
	}
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses,
			in.container(c, model.App, model.FindStatus(&in.Old, c.Name), initialized))
	}
	for i := range in.Pod.Spec.EphemeralContainers {
		c := model.AsContainer(&in.Pod.Spec.EphemeralContainers[i])
		shown := in.container(c, model.Ephemeral, model.FindStatus(&in.Old, c.Name), true)
		shown.Ready = false
		status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, shown)
	}
	if in.ended() {
		terminateContainers(&status, initialized)
	}
	status.Phase = phase(in, &status)
	in.addresses(&status)
	status.Conditions = conditions(in, &status, initialized)
	return status
}

// began is the creation time of the pod's oldest known sandbox, or now.
func (in Input) began() *metav1.Time {
	began := in.Now
	for _, sandbox := range in.Runtime.Sandboxes {
		if sandbox.CreatedAt.Before(began) {
			began = sandbox.CreatedAt
		}
	}
	return new(stamp(began))
}

func (in Input) addresses(status *v1.PodStatus) {
	status.HostIP = cmp.Or(in.HostIPs...)
	for _, ip := range in.HostIPs {
		status.HostIPs = append(status.HostIPs, v1.HostIP{IP: ip})
	}
	ips := model.PodAddresses(in.Runtime.IPs(), status.HostIP)
	if in.Pod.Spec.HostNetwork && in.Runtime.ReadySandbox() != nil {
		ips = in.HostIPs
	}
	if len(ips) == 0 && (in.Ending || model.Terminal(status.Phase)) {
		status.PodIP, status.PodIPs = in.Old.PodIP, in.Old.PodIPs
		return
	}
	status.PodIP = cmp.Or(ips...)
	for _, ip := range ips {
		status.PodIPs = append(status.PodIPs, v1.PodIP{IP: ip})
	}
}
