package testutil

import (
	"runtime"
	"testing"
)

// NoMoreGoroutines counts the goroutines there are now. The check that it returns waits until there are no more than
// that, and fails the test with the stacks of all that are left when this does not become so.
func NoMoreGoroutines(t testing.TB) (check func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		if err := poll(patience, holds(func() bool { return runtime.NumGoroutine() <= before })); err != nil {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, and %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
