package testutil

import (
	"fmt"
	"testing"
)

// Require ends the test with a message, unless ok. Call it from the test's own goroutine.
func Require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Assert fails the test with a message, unless ok, and goes on.
func Assert(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Equal fails the test, unless got equals want, and goes on. The format and args name the value.
func Equal[T comparable](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %+v, want %+v", fmt.Sprintf(format, args...), quoted(got), quoted(want))
	}
}

// quoted returns text as Go source, so that a failure shows spaces and line ends. Other values stay as they are.
func quoted(value any) any {
	if text, ok := value.(string); ok {
		return fmt.Sprintf("%q", text)
	}
	return value
}
