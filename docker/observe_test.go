package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"go.opentelemetry.io/otel/trace"

	"github.com/criadapter/criadapter/internal/testutil"
)

// observed collects the calls of a client's observer.
type observed struct {
	mu   sync.Mutex
	over []string // "call: error's kind"
	open int
}

// observe gives each call a span, so that a test can see whether requests use
// the context that it returns.
func (o *observed) observe(ctx context.Context, call string) (context.Context, func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open++
	span := trace.NewSpanContext(
		trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	return trace.ContextWithSpanContext(ctx, span), func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.open--
		kind := "other"
		switch {
		case err == nil:
			kind = "ok"
		case errdefs.IsNotFound(err):
			kind = "not found"
		case errdefs.IsUnavailable(err):
			kind = "unavailable"
		}
		o.over = append(o.over, call+": "+kind)
	}
}

// take returns the calls that ended since the last take, and checks that no call is still open.
func (o *observed) take(t *testing.T) []string {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	testutil.Assert(t, o.open == 0, "%d calls were begun and not ended", o.open)
	over := o.over
	o.over = nil
	return over
}

func TestCallsAreObserved(t *testing.T) {
	f := newFakeServer(t)
	parents := make(chan string, 10)
	f.handle("POST /containers/x/start", func(w http.ResponseWriter, r *http.Request) {
		parents <- r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusNoContent)
	})
	var o observed
	c, err := Dial(Options{Host: "unix://" + f.socket, Observe: o.observe})
	testutil.Must(t, err)
	defer c.Close()
	check := func(want ...string) {
		t.Helper()
		got := o.take(t)
		testutil.Assert(t, slices.Equal(got, want), "observed %q, want %q", got, want)
	}
	testutil.Must(t, c.StartContainer(testContext(t), "x"))
	check("connect: ok", "start container: ok")
	// The engine can continue the trace.
	if got, want := <-parents, "00-01000000000000000000000000000000-0200000000000000-01"; got != want {
		t.Errorf("the engine was sent the trace %q, want %q", got, want)
	}
	wantType(t, "inspect", second(c.InspectContainer(testContext(t), "unknown")), errdefs.ErrNotFound)
	check("inspect container: not found")
	// A request that never reaches the engine is not a call.
	wantType(t, "start", c.StartContainer(testContext(t), ""), errdefs.ErrNotFound)
	check()
	f.stop()
	wantType(t, "start", c.StartContainer(testContext(t), "x"), errdefs.ErrUnavailable)
	check("start container: unavailable")
	wantType(t, "start", c.StartContainer(testContext(t), "x"), errdefs.ErrUnavailable)
	check("connect: unavailable", "start container: unavailable")
}

func second[T any](_ T, err error) error { return err }

// TestEventStreamIsNoCall checks that the event stream is not observed: it lasts for weeks, so its duration is not the
// latency of a call.
func TestEventStreamIsNoCall(t *testing.T) {
	f := newFakeServer(t)
	f.handle("GET /events", answer(http.StatusOK, ""))
	var o observed
	c, err := Dial(Options{Host: "unix://" + f.socket, Observe: o.observe})
	testutil.Must(t, err)
	defer c.Close()
	subscribed := false
	err = c.Events(testContext(t), EventsOptions{Subscribed: func() { subscribed = true }, Handle: func(Event) {}})
	testutil.Require(t, err != nil && !errors.Is(err, context.DeadlineExceeded) && subscribed,
		"the stream ended with %v, subscribed %t", err, subscribed)
	testutil.Equal(t, fmt.Sprint(o.take(t)), "[connect: ok]", "observed")
}
