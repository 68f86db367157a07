package footprint

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A metric is read from the server's socket. A metric that the server does not have is an error.
func TestValue(t *testing.T) {
	metrics := NewMetrics(filepath.Join(t.TempDir(), "m.sock"))
	listener, err := net.Listen("unix", metrics.socket)
	testutil.Must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# HELP go_goroutines Number.\ngo_goroutines 42\ngo_goroutines_more 7\n"))
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	value, err := metrics.Value(t.Context(), "go_goroutines")
	testutil.Assert(t, err == nil && value == 42, "%v, %v", value, err)
	value, err = metrics.Value(t.Context(), "go_threads")
	testutil.Assert(t, err != nil, "a metric that is not there is %v", value)
}

func TestStatusField(t *testing.T) {
	status := "Name:\tcriadapter\nVmRSS:\t  28412 kB\nThreads:\t14\n"
	testutil.Equal(t, statusField(status, "VmRSS:"), 28412, "statusField")
	testutil.Equal(t, statusField(status, "Nothing:"), 0, "statusField")
}
