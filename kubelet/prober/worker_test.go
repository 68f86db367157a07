package prober

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestClockSetBack: a container whose start is in the future, because the clock was set back after it, is probed after
// its initial delay.
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

// TestHostNetworkFollowsTheNode: a pod in the host's network is probed at the node's current address.
func TestHostNetworkFollowsTheNode(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	at := targetOf(t, web.Listener.Addr().String(), v1.ProbeHandler{
		TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("web")}})
	host := at.ip
	at.ip = "127.0.0.255" // where the server does not listen
	for inHost, want := range map[bool]bool{true: true, false: false} {
		at.pod = &v1.Pod{Spec: v1.PodSpec{HostNetwork: inHost}}
		w := &worker{manager: &Manager{opts: Options{HostIP: func() string { return host }}}, target: at}
		got, err := w.attempt(t.Context())
		testutil.Assert(t, err == nil && (got.failure == "") == want, "in the host's network %v: %q, %v", inHost,
			got.failure, err)
	}
}
