package telemetry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHealthAndReadiness(t *testing.T) {
	var reason atomic.Pointer[error]
	away := errors.New("the engine does not answer")
	reason.Store(&away)
	s := serve(t, ServerOptions{Metrics: NewMetrics(MetricsOptions{}), Ready: func() error { return *reason.Load() }})
	check := func(path string, status int, text string) {
		t.Helper()
		got, body := s.get(path)
		testutil.Assert(t, got == status && strings.TrimSpace(body) == text,
			"%s: %d %q, want %d %q", path, got, body, status, text)
	}
	check("/healthz", http.StatusOK, "ok")
	check("/readyz", http.StatusServiceUnavailable, "the engine does not answer")
	reason.Store(new(error))
	check("/readyz", http.StatusOK, "ok")
	status, _ := s.get("/")
	testutil.Equal(t, status, http.StatusNotFound, "/ answers")
	response, err := s.client.Post("http://metrics/healthz", "text/plain", nil)
	testutil.Must(t, err)
	response.Body.Close()
	testutil.Assert(t, response.StatusCode == http.StatusMethodNotAllowed, "a POST answers %d", response.StatusCode)
}

func TestProfilesAreOptIn(t *testing.T) {
	for _, on := range []bool{false, true} {
		s := serve(t, ServerOptions{Metrics: NewMetrics(MetricsOptions{}), Profiles: on})
		for _, path := range []string{
			"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap?gc=1",
			"/debug/pprof/profile?seconds=0.01", "/debug/pprof/trace?seconds=0.01",
		} {
			want := http.StatusNotFound
			if on {
				want = http.StatusOK
			}
			status, _ := s.get(path)
			testutil.Assert(t, status == want, "profiles %t: %s answers %d, want %d", on, path, status, want)
		}
	}
}

func TestProfilesThatCannotBe(t *testing.T) {
	s := serve(t, ServerOptions{Metrics: NewMetrics(MetricsOptions{}), Profiles: true})
	for path, want := range map[string]int{
		"/debug/pprof/nonsense":             http.StatusNotFound,
		"/debug/pprof/profile?seconds=long": http.StatusBadRequest,
		"/debug/pprof/profile?seconds=1e9":  http.StatusBadRequest,
		"/debug/pprof/profile?seconds=NaN":  http.StatusBadRequest,
		"/debug/pprof/trace?seconds=-1":     http.StatusBadRequest,
	} {
		status, _ := s.get(path)
		testutil.Assert(t, status == want, "%s answers %d, want %d", path, status, want)
	}
}

func TestCloseWithoutServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	s := NewServer(
		ServerOptions{Listener: listener, Metrics: NewMetrics(MetricsOptions{}), Ready: func() error { return nil }})
	testutil.Must(t, s.Close(t.Context()))
	again, err := net.Listen("tcp", listener.Addr().String())
	testutil.Require(t, err == nil, "the port is still taken: %v", err)
	again.Close()
	testutil.Check(t, s.Serve(), "Serve after Close")
}

// TestCloseCutsOff: when the context of Close has ended, Close cuts off a hanging scrape.
func TestCloseCutsOff(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	asked, answer := make(chan struct{}), make(chan struct{})
	defer close(answer)
	sources := emptySources()
	sources.Cache = func() CacheStats { close(asked); <-answer; return CacheStats{} }
	m.Watch(sources)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	s := NewServer(ServerOptions{Listener: listener, Metrics: m, Ready: func() error { return nil }})
	served := testutil.Go(s.Serve)
	scraped := testutil.Go(func() error {
		response, err := http.Get("http://" + listener.Addr().String() + "/metrics")
		if err == nil {
			response.Body.Close()
		}
		return err
	})
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testutil.FailsWith(t, s.Close(ctx), context.Canceled, "Close")
	testutil.Check(t, <-served)
	testutil.Assert(t, <-scraped != nil, "the scrape has an answer")
}
