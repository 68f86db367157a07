package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// SetSandboxReady sets the condition PodReadyToStartContainers in a pod's kept status (OnPodSandboxReady in
// pkg/kubelet). The rest of the status stays. SetSandboxReady needs no sync, so the condition shows before the images
// are pulled. As in the kubelet, the pod's addresses show after the sync.
func (m *Manager) SetSandboxReady(uid types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.pods[uid]
	if old == nil || model.Terminal(old.Status.Phase) {
		return
	}
	shown := model.FindCondition(old.Status.Conditions, v1.PodReadyToStartContainers)
	if shown == nil || shown.Status == v1.ConditionTrue { // a rejected pod has no condition
		return
	}
	next := old.DeepCopy()
	ready := condition(v1.PodReadyToStartContainers, true, "", "")
	ready.ObservedGeneration, ready.LastTransitionTime = next.Generation, stamp(now)
	*model.FindCondition(next.Status.Conditions, ready.Type) = ready
	m.pods[uid] = next
	m.notify()
}
