package single

import (
	"context"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

// Calls are those of all codes together, since the kubelet began; a method that only others called is not there.
func TestCalls(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "m.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
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
		Server:      Server{calls: func(ctx context.Context) (map[string]int, error) { return countCalls(ctx, socket) }},
		callsBefore: map[string]int{"Version": 3, "ListContainers": 1},
	}
	got, err := cluster.Calls(t.Context())
	if want := map[string]int{"ListContainers": 4, "ContainerStatus": 42}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := (&Cluster{}).Calls(t.Context()); got != nil || err != nil {
		t.Errorf("a server that does not count: %v, %v", got, err)
	}
}
