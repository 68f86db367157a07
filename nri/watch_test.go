package nri

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// An end is reported once for each run of a container, and a removal once.
func TestReported(t *testing.T) {
	var r reported
	testutil.Assert(t, r.end("c") && !r.end("c"), "the end is not new once")
	r.runs("c")
	testutil.Assert(t, r.end("c"), "the end of another run is not new")
	testutil.Assert(t, r.removal("c") && !r.removal("c"), "the removal is not new once")
	r.forget("c")
	testutil.Assert(t, len(r.stopped)+len(r.removed) == 0, "left: %v, %v", r.stopped, r.removed)
}
