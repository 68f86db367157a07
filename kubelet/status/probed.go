package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// SetProbed shows results of probes in a pod's kept status: Ready and Started of running containers, and the conditions
// that follow. The rest of the status stays. SetProbed needs no sync, so results show at once, even during a long pull,
// a hook or the pod's end. ready and started have the ids of running containers, as in Input.
func (m *Manager) SetProbed(uid types.UID, ready, started map[string]bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.pods[uid]
	if old == nil || model.Terminal(old.Status.Phase) ||
		len(old.Status.InitContainerStatuses) != len(old.Spec.InitContainers) { // rejected
		return
	}
	next := old.DeepCopy()
	status := &next.Status
	for i := range status.InitContainerStatuses {
		if model.IsSidecar(&next.Spec.InitContainers[i]) {
			showProbed(&status.InitContainerStatuses[i], ready, started)
		}
	}
	for i := range status.ContainerStatuses {
		showProbed(&status.ContainerStatuses[i], ready, started)
	}
	in := Input{Pod: next}
	for _, wanted := range []v1.PodCondition{readyCondition(in, status), containersReady(in, status)} {
		shown := model.FindCondition(status.Conditions, wanted.Type)
		if shown == nil {
			continue
		}
		if shown.Status != wanted.Status {
			shown.LastTransitionTime = stamp(now)
		}
		shown.Status, shown.Reason, shown.Message = wanted.Status, wanted.Reason, wanted.Message
	}
	if !equality.Semantic.DeepEqual(old, next) {
		m.pods[uid] = next
		m.notify()
	}
}

// showProbed sets Ready and Started of a running container that has a result.
func showProbed(c *v1.ContainerStatus, ready, started map[string]bool) {
	id := model.RuntimeID(c.ContainerID)
	if passed, known := started[id]; known && c.State.Running != nil {
		c.Started, c.Ready = &passed, ready[id]
	}
}
