package testutil

import (
	"strings"
	"testing"
)

// Must ends the test with err, unless err is nil. The context says what failed. Call it from the test's own goroutine.
func Must(t testing.TB, err error, context ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(inContext(err, context))
	}
}

// Check fails the test with err, unless err is nil, and goes on. The context says what failed.
func Check(t testing.TB, err error, context ...string) {
	t.Helper()
	if err != nil {
		t.Error(inContext(err, context))
	}
}

func inContext(err error, context []string) string {
	return strings.Join(append(context, err.Error()), ": ")
}
