package nri

import "github.com/criadapter/criadapter/state"

// known has the pods and containers as watch last saw them, by id.
type known struct {
	pods       map[string]*state.Pod
	containers map[string]*state.Container
}

func knownOf(snapshot *state.Snapshot) known {
	k := known{map[string]*state.Pod{}, map[string]*state.Container{}}
	for _, pod := range snapshot.Pods() {
		k.pods[pod.ID] = pod
	}
	for _, c := range snapshot.Containers() {
		k.containers[c.ID] = c
	}
	return k
}

// see adds a change. It leaves out ids in gone, because a change that was queued before a removal still shows the
// removed pod or container.
func (k known) see(change state.Change, gone map[string]bool) {
	if pod := change.Pod; pod != nil && !gone[pod.ID] {
		k.pods[pod.ID] = pod
	}
	for _, c := range change.Containers {
		if !gone[c.ID] {
			k.containers[c.ID] = c
		}
	}
	if change.Type == state.Deleted {
		delete(k.pods, change.ID)
		delete(k.containers, change.ID)
	}
}

// missing returns the ids that are in k and not in now.
func (k known) missing(now known) map[string]bool {
	ids := map[string]bool{}
	for id := range k.pods {
		if now.pods[id] == nil {
			ids[id] = true
		}
	}
	for id := range k.containers {
		if now.containers[id] == nil {
			ids[id] = true
		}
	}
	return ids
}

// changesTo returns the ends and removals between the states k and now, containers first. It misses a pod or container
// that came and went meanwhile, and repeats the ends of containers that had ended before. It leaves out the end of a
// container whose pod is unknown, as a subscription does.
func (k known) changesTo(now known) []state.Change {
	var changes []state.Change
	for id, c := range now.containers {
		if pod := now.pods[c.SandboxID]; pod != nil && c.Status.State() == stateExited {
			changes = append(changes, containerChange(state.Stopped, id, pod, c))
		}
	}
	for id, c := range k.containers {
		if now.containers[id] != nil {
			continue
		}
		pod := k.pods[c.SandboxID]
		if pod != nil {
			last := *c
			last.Status.Running, last.Status.PID = false, 0
			changes = append(changes, containerChange(state.Stopped, id, pod, &last))
		}
		changes = append(changes, containerChange(state.Deleted, id, pod))
	}
	for id, pod := range now.pods {
		if pod.Ended() && !k.pods[id].Ended() {
			changes = append(changes, state.Change{Type: state.Stopped, ID: id, Pod: pod})
		}
	}
	for id, pod := range k.pods {
		if now.pods[id] == nil {
			last := *pod
			last.Status.Running, last.Status.PID = false, 0
			changes = append(changes, state.Change{Type: state.Deleted, ID: id, Pod: &last})
		}
	}
	return changes
}

func containerChange(kind state.ChangeType, id string, pod *state.Pod, c ...*state.Container) state.Change {
	return state.Change{Type: kind, ID: id, Pod: pod, Containers: c}
}
