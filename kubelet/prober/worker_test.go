package prober

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestClockSetBack: a container whose start lies in the future, because the clock was set back after it, is probed
// after its initial delay.
func TestClockSetBack(t *testing.T) {
	c := v1.Container{LivenessProbe: execProbe("live", func(p *v1.Probe) { p.InitialDelaySeconds = 5 })}
	inBubble(t, c, func(m *Manager, e *execs, _ func() string, _ func(string, bool)) {
		c.Name = "c"
		m.Update(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}}}, &model.PodStatus{
			Containers: []model.ContainerStatus{
				{ID: "id", Name: "c", State: model.StateRunning, StartedAt: time.Now().Add(time.Hour)}}}, false)
		time.Sleep(4 * time.Second)
		testutil.Equal(t, e.count("live"), 0, "probes within the initial delay")
		time.Sleep(time.Second)
		testutil.Equal(t, e.count("live"), 1, "probes after the initial delay")
	})
}
