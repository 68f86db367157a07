package status

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// A result of a probe shows without a sync of the pod, and only in the container with the probe.
func TestSetProbed(t *testing.T) {
	m, began := NewManager(), metav1.Unix(100, 0)
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}, Spec: v1.PodSpec{Containers: []v1.Container{
		{Name: "probed"}, {Name: "restarted"}}}}
	m.Set(pod, v1.PodStatus{Phase: v1.PodRunning,
		ContainerStatuses: []v1.ContainerStatus{
			{Name: "probed", ContainerID: "docker://1", State: running, Ready: true, Started: new(true)},
			{Name: "restarted", ContainerID: "docker://2", State: running, Ready: true, Started: new(true)}},
		Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: began},
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: began}}})
	changed, stop := m.Watch()
	defer stop()
	ready := func() *v1.PodCondition { return model.FindCondition(m.Get("pod").Status.Conditions, v1.PodReady) }
	m.SetProbed("pod", map[string]bool{"1": false, "3": false}, map[string]bool{"1": true, "3": true},
		time.Unix(200, 0))
	got := m.Get("pod").Status
	testutil.Assert(t, !got.ContainerStatuses[0].Ready && *got.ContainerStatuses[0].Started &&
		got.ContainerStatuses[1].Ready, "containers %+v", got.ContainerStatuses)
	testutil.Assert(t, ready().Status == v1.ConditionFalse && ready().LastTransitionTime.Unix() == 200 &&
		got.Conditions[1].LastTransitionTime.Unix() == 100, "conditions %+v", got.Conditions)
	testutil.Equal(t, len(changed), 1, "news of the change")
	<-changed
	before := m.Get("pod")
	m.SetProbed("pod", map[string]bool{"1": false}, map[string]bool{"1": true}, time.Unix(300, 0))
	testutil.Assert(t, m.Get("pod") == before && len(changed) == 0, "the same result is a change")
	m.SetProbed("pod", map[string]bool{"1": true}, map[string]bool{"1": true}, time.Unix(300, 0))
	testutil.Assert(t, ready().Status == v1.ConditionTrue && ready().LastTransitionTime.Unix() == 300,
		"condition %+v", ready())
	m.SetProbed("unknown", nil, nil, time.Unix(300, 0))
	m.Set(pod, v1.PodStatus{Phase: v1.PodFailed, ContainerStatuses: got.ContainerStatuses})
	before = m.Get("pod")
	m.SetProbed("pod", map[string]bool{"1": true}, map[string]bool{"1": true}, time.Unix(400, 0))
	testutil.Assert(t, m.Get("pod") == before, "the status of a failed pod has changed")
}
