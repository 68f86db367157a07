package docker

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestStartMeetsAnEndingShim checks that a start is repeated if it met the ending shim of an earlier container. No
// other failed start is repeated.
func TestStartMeetsAnEndingShim(t *testing.T) {
	const create = "failed to create task for container: "
	for _, c := range []struct {
		answer string
		asked  int
	}{
		{create + "failed to create shim task: ttrpc: closed", 3},
		{create + "failed to start shim: start failed: failed to create TTRPC connection: " +
			"dial unix /s: connect: connection refused", 3},
		{create + "failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error " +
			"(open /b/log.json: no such file or directory): shutdown", 3},
		{create + "failed to start shim: start failed: failed to write bootstrap.json: failed to rename \"/b/5\" to " +
			"\"/b/bootstrap.json\": rename /b/5 /b/bootstrap.json: no such file or directory", 3},
		{create + "failed to create shim task: OCI runtime create failed: no such file or directory", 1},
		{"error while mounting volume: connect: connection refused", 1},
	} {
		f := newFakeServer(t)
		asked := 0
		f.handle("POST /containers/x/start", func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked == 3 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"message": %q}`, c.answer)
		})
		err := f.dial(0).StartContainer(testContext(t), "x")
		testutil.Assert(t, asked == c.asked && (err == nil) == (asked == 3),
			"%s: asked %d times, got %v", c.answer, asked, err)
	}
}

// TestStartAtAShimThatNeverEnds checks that a start gives up and returns the engine's error.
func TestStartAtAShimThatNeverEnds(t *testing.T) {
	f := newFakeServer(t)
	f.handle("POST /containers/x/start", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"message": "failed to create task for container: ttrpc: closed"}`)
	})
	err := f.dial(0).StartContainer(testContext(t), "x")
	testutil.Assert(t, err != nil && metEndingShim(err), "got %v", err)
}

// TestStartOutlivesItsCaller: the caller gets its context's error at once, and the engine does not lose its client.
func TestStartOutlivesItsCaller(t *testing.T) {
	outlivesItsCaller(t, "POST /containers/x/start", func(ctx context.Context, c *Client) error {
		return c.StartContainer(ctx, "x")
	})
}

// outlivesItsCaller checks that the engine keeps its client when the caller of a call leaves. A caller that left before
// the call makes no request.
func outlivesItsCaller(t *testing.T, request string, call func(context.Context, *Client) error) {
	t.Helper()
	f := newFakeServer(t)
	asked, lost := make(chan struct{}, 1), make(chan bool, 1)
	f.handle(request, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
			lost <- true
		case <-time.After(200 * time.Millisecond): // the server notices a lost client within microseconds
			lost <- false
		}
	})
	c := f.dial(0)
	ctx, leave := context.WithCancel(testContext(t))
	left := testutil.Go(func() error { return call(ctx, c) })
	<-asked
	leave()
	wantType(t, "a caller that leaves", <-left, context.Canceled)
	testutil.Assert(t, !<-lost, "the engine has lost its client")
	wantType(t, "a caller that has left", call(ctx, c), context.Canceled)
	testutil.Assert(t, len(asked) == 0, "a caller that has left makes a request")
}
