package testutil

import (
	"errors"
	"fmt"
	"testing"
)

// Fails fails the test unless matches(err) is true, and goes on. An example of matches is errdefs.IsNotFound. The
// failure begins with the text of format and args, which names the call or the case of err.
func Fails(t testing.TB, err error, matches func(error) bool, format string, args ...any) {
	t.Helper()
	if !matches(err) {
		t.Errorf("%s: the error is %v", fmt.Sprintf(format, args...), err)
	}
}

// FailsWith is Fails for an error that is want or wraps it.
func FailsWith(t testing.TB, err, want error, format string, args ...any) {
	t.Helper()
	Fails(t, err, func(err error) bool { return errors.Is(err, want) }, format, args...)
}
