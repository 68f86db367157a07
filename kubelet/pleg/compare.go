package pleg

import (
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
)

// condition is the state of a container or a sandbox. It advances in this order, unless the state becomes unknown.
type condition int

const (
	absent condition = iota
	other            // created, or unknown
	running
	exited
)

// conditions are the conditions of a listed pod's containers and sandboxes, by id. A nil pod has none.
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

// compare returns the events between two lists of a pod.
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

// conditionsOf are the conditions in a cached status, by id. They are nil for a pod without containers and sandboxes.
func conditionsOf(status *model.PodStatus) map[string]condition {
	if status == nil || len(status.Sandboxes)+len(status.Containers) == 0 {
		return nil
	}
	out := map[string]condition{}
	for _, sandbox := range status.Sandboxes {
		out[sandbox.ID] = exited
		if sandbox.Ready {
			out[sandbox.ID] = running
		}
	}
	for _, container := range status.Containers {
		switch container.State {
		case model.StateRunning:
			out[container.ID] = running
		case model.StateExited:
			out[container.ID] = exited
		default:
			out[container.ID] = other
		}
	}
	return out
}

// shows says whether a status has all changes between two lists of a pod. The status may be newer than the second list.
func shows(status *model.PodStatus, before, after *cri.Pod) bool {
	old, now, known := conditions(before), conditions(after), conditionsOf(status)
	for id := range old {
		if now[id] == absent && known[id] != absent {
			return false
		}
	}
	for id, is := range now {
		further := old[id] < is && is < known[id]
		if old[id] != is && known[id] != is && !further {
			return false
		}
	}
	return true
}
