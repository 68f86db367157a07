package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Input is what a pod's status is made of. Pod and Runtime are required.
type Input struct {
	Pod     *v1.Pod
	Runtime *model.PodStatus
	// RuntimeName is the scheme of container ids.
	RuntimeName string
	// Old is the status before, for what the runtime has forgotten and for the times of transitions. The status of Pod
	// is the one that the API server has: of that are taken the conditions that are not the kubelet's (see Owned), and
	// a phase that is terminal, which somebody else set, with its reason.
	Old v1.PodStatus
	// Waiting says by name why containers do not run, as a sync of the pod found. Nil means that there is no result of
	// one yet since Old: a container that waited then waits for the same reason.
	Waiting map[string]*model.ReasonError
	// Ready and Started hold the ids of running containers that passed their probes (or have none).
	Ready, Started map[string]bool
	// Resize says where a change of the pod's resources stands; Pod has the allocated ones.
	Resize Resize
	// HostIPs are the node's addresses, the primary one first.
	HostIPs []string
	// Ending says that the pod is being ended and no container starts any more. Once none runs, the status is the last
	// one: the phase is Succeeded or Failed, and containers whose end was not observed count as failed.
	Ending bool
	// Stopping says that an ending pod's sandbox is not stopped yet: what was begun before may start, so the status is
	// not the last one even if nothing runs.
	Stopping bool
	// Now is the time of transitions.
	Now time.Time
}

// Generate makes the status.
func Generate(in Input) v1.PodStatus {
	status := v1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		QOSClass:           model.QOS(in.Pod),
		StartTime:          in.Old.StartTime,
		Reason:             in.Old.Reason,
		Message:            in.Old.Message,
	}
	if status.StartTime == nil {
		status.StartTime = in.began()
	}
	if model.Terminal(in.Pod.Status.Phase) && !model.Terminal(in.Old.Phase) {
		status.Reason, status.Message = in.Pod.Status.Reason, in.Pod.Status.Message // why the API server ended it
	}
	initialized := isInitialized(in)
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		status.InitContainerStatuses = append(status.InitContainerStatuses,
			in.container(c, model.InitKind(c), find(in.Old.InitContainerStatuses, c.Name), initialized))
	}
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses,
			in.container(c, model.App, find(in.Old.ContainerStatuses, c.Name), initialized))
	}
	for i := range in.Pod.Spec.EphemeralContainers {
		c := model.AsContainer(&in.Pod.Spec.EphemeralContainers[i])
		shown := in.container(c, model.Ephemeral, find(in.Old.EphemeralContainerStatuses, c.Name), true)
		shown.Ready = false
		status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, shown)
	}
	if in.over() {
		finish(&status, initialized)
	}
	status.Phase = phase(in, &status)
	in.addresses(&status)
	status.Conditions = conditions(in, &status, initialized)
	return status
}

// began is when the pod was first worked on: when its first sandbox was made that is known, or now.
func (in Input) began() *metav1.Time {
	began := in.Now
	for _, sandbox := range in.Runtime.Sandboxes {
		if sandbox.CreatedAt.Before(began) {
			began = sandbox.CreatedAt
		}
	}
	at := stamp(began)
	return &at
}

func find(statuses []v1.ContainerStatus, name string) *v1.ContainerStatus {
	i := slices.IndexFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &statuses[i]
}

// isInitialized says whether all init containers have ended well and all sidecars have started. An app container that
// was made is the proof, too: remains of init containers are collected.
func isInitialized(in Input) bool {
	for i := range in.Pod.Spec.Containers {
		if in.Runtime.Container(in.Pod.Spec.Containers[i].Name) != nil {
			return true
		}
	}
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		observed := in.Runtime.Container(c.Name)
		switch {
		case observed == nil:
			return false
		case model.IsSidecar(c):
			if observed.State != model.StateRunning || !in.Started[observed.ID] {
				return false
			}
		case observed.State != model.StateExited || observed.ExitCode != 0:
			return false
		}
	}
	return true
}

func (in Input) addresses(status *v1.PodStatus) {
	for i, ip := range in.HostIPs {
		if i == 0 {
			status.HostIP = ip
		}
		status.HostIPs = append(status.HostIPs, v1.HostIP{IP: ip})
	}
	ips := in.Runtime.IPs()
	if in.Pod.Spec.HostNetwork && in.Runtime.ReadySandbox() != nil {
		ips = in.HostIPs
	}
	if len(ips) == 0 && (in.Ending || model.Terminal(status.Phase)) {
		status.PodIP, status.PodIPs = in.Old.PodIP, in.Old.PodIPs // what it had, for those who look back
		return
	}
	for i, ip := range ips {
		if i == 0 {
			status.PodIP = ip
		}
		status.PodIPs = append(status.PodIPs, v1.PodIP{IP: ip})
	}
}
