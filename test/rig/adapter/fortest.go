package adapter

import (
	"context"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// closeTimeout bounds the cleanup of one test.
const closeTimeout = testutil.Patience

// ForTest starts a server for the duration of a test. When the test ends, the server is closed, and an error of Close
// fails the test. The output of a failed test has the end of the server's log.
func ForTest(t testing.TB, opts Options) *Server {
	t.Helper()
	s := NewForTest(t, opts)
	testutil.Must(t, s.Start(t.Context()))
	return s
}

// NewForTest is ForTest without starting the server, for tests of how it starts.
func NewForTest(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := New(opts)
	testutil.Must(t, err)
	t.Cleanup(func() {
		log := s.LogTail()
		// The test's own context is over here.
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		testutil.Check(t, s.Close(ctx))
		if t.Failed() {
			t.Logf("the end of criadapter's log:\n%s", log)
		}
	})
	return s
}
