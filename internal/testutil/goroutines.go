package testutil

import (
	"runtime"
	"testing"
)

// NoMoreGoroutines counts the present goroutines. The returned check waits until there are no more than before. It
// fails the test with the stacks of all goroutines if that takes too long.
func NoMoreGoroutines(t testing.TB) (check func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		if err := poll(Patience, holds(func() bool { return runtime.NumGoroutine() <= before })); err != nil {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, and %d before:\n%s", runtime.NumGoroutine(), before,
				stacks[:runtime.Stack(stacks, true)])
		}
	}
}
