package nri

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// An end is reported once for each run of a container, and a removal once.
func TestReported(t *testing.T) {
	var r reported
	ends, removals := 0, 0
	end := func() { r.end(t.Context(), "c", func() { ends++ }) }
	end()
	end()
	r.runs("c")
	end()
	for range 2 {
		r.removal(t.Context(), "c", func() { removals++ })
	}
	testutil.Assert(t, ends == 2 && removals == 1, "%d ends, %d removals", ends, removals)
	r.forget("c")
	testutil.Assert(t, len(r.stopped)+len(r.removed) == 0, "left: %v, %v", r.stopped, r.removed)
}
