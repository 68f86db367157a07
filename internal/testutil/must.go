package testutil

import "testing"

// Must ends the test with err, unless that is nil. Call it from the test's own goroutine.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Check fails the test with err, unless that is nil, and goes on: for cleanups.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
