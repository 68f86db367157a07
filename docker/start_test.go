package docker

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestStartMeetsAnEndingShim repeats a start that was given the shim of a container which had just ended, and no other
// failed start.
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
