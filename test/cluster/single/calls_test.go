package single

import (
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/footprint"
)

// Calls counts all codes since the kubelet's start. It leaves out methods that only other clients have called.
func TestCalls(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "m.sock")
	listener, err := net.Listen("unix", socket)
	testutil.Must(t, err)
	const text = `# TYPE criadapter_rpc_requests_total counter
criadapter_rpc_requests_total{code="OK",method="ListContainers"} 5
criadapter_rpc_requests_total{code="NotFound",method="ContainerStatus"} 2
criadapter_rpc_requests_total{code="OK",method="ContainerStatus"} 40
criadapter_rpc_requests_total{code="OK",method="Version"} 3
# TYPE criadapter_cache_fresh gauge
criadapter_cache_fresh 1
`
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	cluster := &Cluster{
		Server:      Server{Metrics: footprint.NewMetrics(socket)},
		callsBefore: map[string]int{"Version": 3, "ListContainers": 1},
	}
	got, err := cluster.Calls(t.Context())
	want := map[string]int{"ListContainers": 4, "ContainerStatus": 42}
	testutil.Assert(t, err == nil && maps.Equal(got, want), "got %v, %v; want %v", got, err, want)
	got, err = (&Cluster{}).Calls(t.Context())
	testutil.Assert(t, got == nil && err == nil, "a server that does not count: %v, %v", got, err)
}
