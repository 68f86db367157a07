package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// callCounter stands between a server and the engine and notes the calls.
type callCounter struct {
	// path is its socket.
	path string

	mu    sync.Mutex
	calls []string
}

// countCalls serves until the test ends.
func countCalls(t *testing.T, env rigenv.Env) *callCounter {
	t.Helper()
	dir, err := os.MkdirTemp(env.WorkDir, "count") // short, for the socket in it
	testutil.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	engine := strings.TrimPrefix(env.DockerHost, "unix://")
	c := &callCounter{path: filepath.Join(dir, "engine.sock")}
	listener, err := net.Listen("unix", c.path)
	testutil.Must(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", engine)
		}},
		FlushInterval: -1, // events must not wait
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.calls = append(c.calls, r.Method+" "+r.URL.Path)
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return c
}

// taken returns the calls since it was called last, nil for none.
func (c *callCounter) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// awaitSilence waits until the cache has made the calls that follow the events of a start, and returns all calls.
func (c *callCounter) awaitSilence(t *testing.T) (all []string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		time.Sleep(time.Second)
		if calls := c.taken(); calls != nil {
			all = append(all, calls...)
			return fmt.Errorf("the engine is still being asked: %v", calls)
		}
		return nil
	})
	return all
}
