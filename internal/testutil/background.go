package testutil

import (
	"context"
	"sync"
	"testing"
)

// Background calls run in a goroutine. stop cancels run's context and waits until run has returned. The end of the test
// calls stop, too. The test fails if run returns an error.
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

// Go calls run in a goroutine, and returns a channel that receives run's result.
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
