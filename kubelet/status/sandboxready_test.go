package status

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestSetSandboxReady: the condition of a pod that starts becomes true. An ended pod and a pod without the condition
// stay as they are.
func TestSetSandboxReady(t *testing.T) {
	const kind = v1.PodReadyToStartContainers
	waits := []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue},
		{Type: kind, Status: v1.ConditionFalse, Reason: "PodSandboxNotReady", Message: "no pod sandbox exists"}}
	ready := []v1.PodCondition{{Type: kind, Status: v1.ConditionTrue}}
	for _, test := range []struct {
		name       string
		phase      v1.PodPhase
		conditions []v1.PodCondition
		changes    bool
	}{
		{"starts", v1.PodPending, waits, true},
		{"gets another sandbox", v1.PodRunning, waits, true},
		{"has its sandbox", v1.PodRunning, ready, false},
		{"ended", v1.PodFailed, waits, false},
		{"rejected", v1.PodPending, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := NewManager()
			m.Set(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod", Generation: 7}},
				v1.PodStatus{Phase: test.phase, Conditions: test.conditions})
			before := m.Get("pod")
			m.SetSandboxReady("pod", time.Unix(100, 0))
			got := m.Get("pod")
			testutil.Require(t, (got != before) == test.changes, "status %+v", got.Status)
			if !test.changes {
				return
			}
			want := v1.PodCondition{Type: kind, Status: v1.ConditionTrue, ObservedGeneration: 7,
				LastTransitionTime: metav1.Unix(100, 0)}
			testutil.Equal(t, *model.FindCondition(got.Status.Conditions, kind), want, "condition")
			testutil.Equal(t, got.Status.Conditions[0], test.conditions[0], "another condition")
		})
	}
	NewManager().SetSandboxReady("unknown", time.Unix(100, 0))
}
