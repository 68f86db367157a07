package streaming

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/panics"
)

// session is one request with a valid ticket.
type session struct {
	// work counts the session's goroutines besides the request's own.
	work sync.WaitGroup
}

// takeover marks the client's connection as upgraded when a handler hijacks it.
type takeover struct {
	http.ResponseWriter
	client *client
}

// Hijack implements http.Hijacker.
func (t takeover) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err == nil {
		t.client.upgraded.Store(true)
	}
	return conn, buffered, err
}

// serveHTTP serves /KIND/TOKEN, once per token. It gives the same answer for every kind of invalid token.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	kind, token, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	ticket, ok := s.tickets.redeem(kind, token)
	if !ok {
		http.NotFound(w, r)
		return
	}
	r = r.WithContext(log.WithLogger(r.Context(), ticket.logger))
	client, ok := clientOf(r.Context())
	if !ok || !s.begin(kind) {
		http.Error(w, "the server is ending", http.StatusServiceUnavailable)
		return
	}
	defer s.ended(kind)
	defer client.guard()()
	current := &session{}
	defer noPanic(r.Context(), kind)
	defer current.work.Wait()
	defer func() {
		// After some errors the library leaves a connection open.
		if client.upgraded.Load() {
			_ = client.Close()
		}
	}()
	ticket.serve(current, takeover{ResponseWriter: w, client: client}, r)
}

// begin counts a session. It returns false after Close.
func (s *Server) begin(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.sessions.Add(1)
	s.open[kind]++
	return true
}

// ended uncounts a session.
func (s *Server) ended(kind string) {
	s.mu.Lock()
	s.open[kind]--
	s.mu.Unlock()
	s.sessions.Done()
}

// Sessions returns the number of open sessions by kind: exec, attach and portforward.
func (s *Server) Sessions() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]int{kindExec: s.open[kindExec], kindAttach: s.open[kindAttach],
		kindPortForward: s.open[kindPortForward]}
}

// noPanic logs a panic and ends only its session. Without it, net/http would hide the panic of its own goroutine, and
// the panic of another goroutine would end the program.
func noPanic(ctx context.Context, kind string) {
	if cause := recover(); cause != nil {
		// The session is over, so no client gets the error.
		_ = panics.Report(log.G(ctx).WithField("session", kind), "session", kind, cause)
	}
}
