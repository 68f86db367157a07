package docker

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fakeServer serves the part of Docker's API that a connection needs, on a unix socket. A test changes the answers by
// fields, or adds handlers.
type fakeServer struct {
	t      *testing.T
	socket string
	accept atomic.Int64 // connections so far

	mu         sync.Mutex
	apiVersion string
	version    system.VersionResponse
	info       system.Info
	running    []container.Summary
	handlers   map[string]http.HandlerFunc // by method and path without the version
	server     *http.Server
	served     chan struct{}
}

// newFakeServer starts a server that answers like Docker 20.10. Its data root is in a directory of the test.
func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	f := &fakeServer{
		t:          t,
		socket:     filepath.Join(t.TempDir(), "s"),
		apiVersion: "1.41",
		version:    system.VersionResponse{Version: "20.10.24", Os: "linux", Arch: "amd64"},
		info: system.Info{
			DockerRootDir: t.TempDir(), OperatingSystem: "Debian GNU/Linux 12", KernelVersion: "6.1.0",
			CgroupVersion: "2",
			CgroupDriver:  "systemd", Driver: "overlay2", DefaultRuntime: "runc",
		},
		handlers: make(map[string]http.HandlerFunc),
	}
	f.start()
	t.Cleanup(f.stop)
	return f
}

func (f *fakeServer) start() {
	f.t.Helper()
	listener, err := net.Listen("unix", f.socket)
	testutil.Must(f.t, err)
	f.server = &http.Server{Handler: f, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			f.accept.Add(1)
		}
	}}
	f.served = make(chan struct{})
	go func(server *http.Server, served chan struct{}) {
		defer close(served)
		_ = server.Serve(listener)
	}(f.server, f.served)
}

// stop cuts all connections and removes the socket.
func (f *fakeServer) stop() {
	_ = f.server.Close()
	<-f.served
}

// handle sets the answer to requests such as "POST /containers/x/start".
func (f *fakeServer) handle(request string, handler http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers[request] = handler
}

// change alters the answers under the lock.
func (f *fakeServer) change(alter func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	alter()
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1."); ok {
		_, rest, _ = strings.Cut(rest, "/")
		path = "/" + rest
	}
	f.mu.Lock()
	handler := f.handlers[r.Method+" "+path]
	answer := map[string]any{"/version": f.version, "/info": f.info, "/containers/json": f.running}[path]
	if f.apiVersion != "" {
		w.Header().Set("Api-Version", f.apiVersion)
	}
	f.mu.Unlock()
	switch {
	case handler != nil:
		handler(w, r)
	case path == "/_ping":
		w.WriteHeader(http.StatusOK)
	case answer != nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	default:
		fail(w, http.StatusNotFound, "page not found")
	}
}

// fail answers as the engine does with an error.
func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
}

// answer returns a handler with a fixed response.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// hang returns a handler that answers when the test ends.
func (f *fakeServer) hang() http.HandlerFunc {
	end := make(chan struct{})
	f.t.Cleanup(func() { close(end) })
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}
}

// dial returns a client of the server.
func (f *fakeServer) dial(timeout time.Duration) *Client {
	f.t.Helper()
	c, err := Dial(Options{Host: "unix://" + f.socket, RequestTimeout: timeout})
	testutil.Must(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// wantType fails the test unless err has the type.
func wantType(t *testing.T, what string, err, want error) {
	t.Helper()
	testutil.Assert(t, errors.Is(err, want), "%s: got error %v, want %v", what, err, want)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	t.Cleanup(cancel)
	return ctx
}
