package engine

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// closeTimeout bounds the end of one test's engine.
const closeTimeout = removeTimeout + termTimeout

// ForTest starts an engine for the duration of a test. Without Options.Dir it makes a directory, which the rig removes.
func ForTest(t testing.TB, opts Options) *Engine {
	t.Helper()
	e := newForTest(t, opts)
	testutil.Must(t, e.Start(t.Context()))
	return e
}

// newForTest is ForTest without starting the engine.
func newForTest(t testing.TB, opts Options) *Engine {
	t.Helper()
	e, err := newInWorkDir(opts)
	testutil.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout) // the test's own context has ended
		defer cancel()
		testutil.Check(t, e.Close(ctx))
	})
	return e
}

// Docker runs the docker command on the engine at host. It returns the output without surrounding space. A failure ends
// the test.
func Docker(t testing.TB, host string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "docker", append([]string{"--host", host}, args...)...)
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	testutil.Require(t, err == nil, "docker %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	return strings.TrimSpace(string(output))
}

// Use returns env with this engine instead of its own.
func (e *Engine) Use(env rigenv.Env) rigenv.Env {
	env.DockerHost, env.DockerRoot = e.Host(), e.Root()
	return env
}

// Proxy serves the engine of env on a socket of its own until the test ends. handler may change the reverse proxy, and
// returns the handler that gets the requests.
func Proxy(t testing.TB, env rigenv.Env, handler func(*httputil.ReverseProxy) http.Handler) (host string) {
	t.Helper()
	dir, err := os.MkdirTemp(env.WorkDir, "p") // short, for the socket in it
	testutil.Must(t, err)
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	testutil.Must(t, err)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(env.DockerHost, "unix://"))
	}}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handler(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "engine"}) },
		Transport:     transport,
		FlushInterval: -1, // events and progress come one by one
	})}
	ended := testutil.Go(func() error { return server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
		transport.CloseIdleConnections()
	})
	return "unix://" + path
}
