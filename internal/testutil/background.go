package testutil

import (
	"context"
	"sync"
	"testing"
)

// Background calls run in a goroutine. The returned function cancels its context and waits for it, and the end of the
// test does the same. The test fails if run returns an error.
func Background(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := Go(func() error { return run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Go calls run in a goroutine, and returns the channel on which the result comes once.
func Go(run func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	return ended
}

// Try is Go for a call whose result does not matter.
func Try[T any](run func() (T, error)) <-chan error {
	return Go(func() error {
		_, err := run()
		return err
	})
}
