package kubelet

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/grpctest"
)

// TestGRPCProbes runs gRPC probes of a pod in the host's network. The test itself serves the health service, with one
// service name for each probe.
func TestGRPCProbes(t *testing.T) {
	n := newNode(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	state := health.NewServer()
	state.SetServingStatus("ready", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	state.SetServingStatus("alive", grpc_health_v1.HealthCheckResponse_SERVING)
	grpctest.Serve(t, listener, func(server *grpc.Server) { grpc_health_v1.RegisterHealthServer(server, state) })
	n.writePod("pod", strings.ReplaceAll(`
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: SHELL
    command: [sleep, "1000"]
    startupProbe: {grpc: {port: PORT}, periodSeconds: 1}
    readinessProbe: {grpc: {port: PORT, service: ready}, periodSeconds: 1}
    livenessProbe: {grpc: {port: PORT, service: alive}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
`, "PORT", fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)))
	event := n.event("pod", "Unhealthy")
	testutil.Assert(t, strings.Contains(event.Message, "Readiness probe failed") &&
		strings.Contains(event.Message, "NOT_SERVING"), "the event says %q", event.Message)
	state.SetServingStatus("ready", grpc_health_v1.HealthCheckResponse_SERVING)
	pod := n.ready("pod")
	testutil.Assert(t, status(pod, "main").RestartCount == 0, "restarted: %s", states(pod))
	state.SetServingStatus("ready", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	n.until("pod", func(pod *v1.Pod) error { return wantReady(pod, v1.ConditionFalse) })
	state.SetServingStatus("alive", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	n.restarted("pod", "main", 1)
	state.SetServingStatus("alive", grpc_health_v1.HealthCheckResponse_SERVING)
	state.SetServingStatus("ready", grpc_health_v1.HealthCheckResponse_SERVING)
	n.ready("pod")
}
