package enginecalls

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestProxyCountsAndPassesOn also tests an answer that comes in pieces, as events do.
func TestProxyCountsAndPassesOn(t *testing.T) {
	dir := t.TempDir()
	engine, front := filepath.Join(dir, "engine"), filepath.Join(dir, "front")
	listener, err := net.Listen("unix", engine)
	testutil.Must(t, err)
	more := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first")
		if r.URL.Path == "/events" {
			w.(http.Flusher).Flush()
			<-more
		}
		_, _ = io.WriteString(w, " second")
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	p, err := Start(front, engine)
	testutil.Must(t, err)
	client := &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", front)
		}}}
	defer client.CloseIdleConnections()
	for _, path := range []string{"/events", "/info", "/info"} {
		response, err := client.Get("http://engine" + path)
		testutil.Must(t, err)
		first := make([]byte, len("first"))
		_, err = io.ReadFull(response.Body, first)
		testutil.Require(t, err == nil && string(first) == "first", "%s: received %q, %v", path, first, err)
		if path == "/events" {
			close(more)
		}
		rest, err := io.ReadAll(response.Body)
		testutil.Assert(t, err == nil && string(rest) == " second", "%s: received %q, %v", path, rest, err)
		response.Body.Close()
	}
	got, listed := p.Take()
	testutil.Assert(t, slices.Equal(got, []string{"GET /events", "GET /info", "GET /info"}) && listed.IsZero(),
		"counted %v, with a list at %v", got, listed)
	p.answeredList()
	got, listed = p.Take()
	testutil.Assert(t, len(got) == 0 && !listed.IsZero(), "counted %v after that, with a list at %v", got, listed)
	testutil.Check(t, p.Close())
}
