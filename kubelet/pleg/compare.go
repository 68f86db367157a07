package pleg

import (
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

// condition is what containers and sandboxes have in common.
type condition int

const (
	absent condition = iota
	other            // created, or unknown
	running
	exited
)

// conditions is the pod's containers and sandboxes by id. A pod that is nil has none.
func conditions(pod *cri.Pod) map[string]condition {
	if pod == nil {
		return nil
	}
	out := map[string]condition{}
	for id, state := range pod.Containers {
		switch state {
		case runtimeapi.ContainerState_CONTAINER_RUNNING:
			out[id] = running
		case runtimeapi.ContainerState_CONTAINER_EXITED:
			out[id] = exited
		default:
			out[id] = other
		}
	}
	for id, state := range pod.Sandboxes {
		if state == runtimeapi.PodSandboxState_SANDBOX_READY {
			out[id] = running
		} else {
			out[id] = exited
		}
	}
	return out
}

// compare is what leads from one look at a pod to the next.
func compare(uid types.UID, before, after *cri.Pod) []Event {
	old, now := conditions(before), conditions(after)
	var events []Event
	add := func(id string, kinds ...Kind) {
		for _, kind := range kinds {
			events = append(events, Event{UID: uid, Kind: kind, ID: id})
		}
	}
	for id, was := range old {
		if now[id] == absent {
			if was == exited {
				add(id, Removed)
			} else {
				add(id, Died, Removed)
			}
		}
	}
	for id, is := range now {
		if old[id] == is {
			continue
		}
		switch is {
		case running:
			add(id, Started)
		case exited:
			add(id, Died)
		default:
			add(id, Changed)
		}
	}
	return events
}

// fromStatus is the pod as a list shows it; nil for one without anything.
func fromStatus(status *model.PodStatus) *cri.Pod {
	if len(status.Sandboxes) == 0 && len(status.Containers) == 0 {
		return nil
	}
	pod := &cri.Pod{
		UID: status.UID, Name: status.Name, Namespace: status.Namespace,
		Sandboxes: map[string]runtimeapi.PodSandboxState{}, Containers: map[string]runtimeapi.ContainerState{},
	}
	for _, sandbox := range status.Sandboxes {
		pod.Sandboxes[sandbox.ID] = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		if sandbox.Ready {
			pod.Sandboxes[sandbox.ID] = runtimeapi.PodSandboxState_SANDBOX_READY
		}
	}
	for _, container := range status.Containers {
		pod.Containers[container.ID] = criState(container.State)
	}
	return pod
}

func criState(state model.ContainerState) runtimeapi.ContainerState {
	switch state {
	case model.StateCreated:
		return runtimeapi.ContainerState_CONTAINER_CREATED
	case model.StateRunning:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	case model.StateExited:
		return runtimeapi.ContainerState_CONTAINER_EXITED
	default:
		return runtimeapi.ContainerState_CONTAINER_UNKNOWN
	}
}
