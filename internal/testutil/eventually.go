package testutil

import (
	"errors"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Patience is the time after which Eventually and Until fail the test. It also bounds other steps that must not last
// for ever. It costs nothing in a test that passes: the condition holds much sooner, even on a machine where the start
// of a container takes half a minute.
const Patience = 10 * time.Minute

// Eventually repeats check until it returns nil, and fails the test with its last
// error after Patience. Call it from the test's own goroutine.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	if err := poll(Patience, check); err != nil {
		t.Fatalf("not within %s: %v", Patience, err)
	}
}

// EventuallyWithin is Eventually with its own time limit, and with a name for the message.
func EventuallyWithin(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	if err := poll(within, check); err != nil {
		t.Fatalf("%s: not within %s: %v", what, within, err)
	}
}

// Until is Eventually for a condition that returns a bool. The text what names the condition in the failure.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if err := poll(Patience, holds(condition)); err != nil {
		t.Fatalf("not within %s: %s", Patience, what)
	}
}

// Receive returns the next value of a channel, or the zero value of a closed one. It ends the test with the message if
// nothing comes within Patience. Call it from the test's own goroutine.
func Receive[T any](t testing.TB, from <-chan T, format string, args ...any) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(Patience):
		t.Fatalf(format, args...)
		panic("unreachable")
	}
}

func holds(condition func() bool) func() error {
	return func() error {
		if !condition() {
			return errors.New("it does not hold")
		}
		return nil
	}
}

// poll repeats check until it returns nil or the time is over, and returns its last error. It calls check at least
// once.
func poll(within time.Duration, check func() error) error {
	deadline := time.Now().Add(within)
	backoff := wait.Backoff{Duration: time.Millisecond, Factor: 1.5, Steps: math.MaxInt, Cap: 50 * time.Millisecond}
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(backoff.Step())
	}
}
