package docker

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The client records when the engine last answered, and when a request last waited too long. A request that its caller
// gives up early changes neither time.
func TestLastAnswerAndTimeout(t *testing.T) {
	f := newFakeServer(t)
	f.handle("GET /containers/hangs/json", f.hang())
	c := f.dial(300 * time.Millisecond)
	ctx := testContext(t)
	testutil.Assert(t, c.LastAnswer().IsZero() && c.LastTimeout().IsZero(),
		"LastAnswer or LastTimeout is set before the first request")
	for _, call := range []func() error{
		func() error { return c.Ping(ctx) },
		func() error { return c.RemoveContainer(ctx, "unknown") }, // an error is an answer
	} {
		before := time.Now()
		_ = call()
		if !c.LastAnswer().After(before) {
			t.Errorf("an answer does not move LastAnswer from %v", c.LastAnswer())
		}
	}
	answered := c.LastAnswer()
	hurry, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := c.InspectContainer(hurry, "hangs")
	wantType(t, "with the caller's deadline", err, context.DeadlineExceeded)
	testutil.Assert(t, c.LastTimeout().IsZero(), "LastTimeout counts the caller's deadline")
	_, err = c.InspectContainer(ctx, "hangs")
	wantType(t, "without an answer", err, errdefs.ErrUnavailable)
	if c.LastTimeout().IsZero() || !c.LastAnswer().Equal(answered) {
		t.Errorf("last answer at %v, want %v; last timeout at %v", c.LastAnswer(), answered, c.LastTimeout())
	}
}

// The deadlines of CRI requests come before the client's timeout. LastTimeout reports a hanging engine nevertheless,
// while the request still waits.
func TestLastTimeoutWithADeadlineOfTheCaller(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Client) error{
		"inspect": func(ctx context.Context, c *Client) error {
			_, err := c.InspectContainer(ctx, "hangs")
			return err
		},
		"stop": func(ctx context.Context, c *Client) error { return c.StopContainer(ctx, "hangs", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.handle("GET /containers/hangs/json", f.hang())
			f.handle("POST /containers/hangs/stop", f.hang())
			c := f.dial(4 * time.Second)
			testutil.Must(t, c.Ping(testContext(t)))
			ctx, cancel := context.WithTimeout(testContext(t), 3900*time.Millisecond)
			defer cancel()
			ended := testutil.Go(func() error { return call(ctx, c) })
			testutil.Until(t, "LastTimeout reports the silence", func() bool { return !c.LastTimeout().IsZero() })
			select {
			case err := <-ended:
				t.Errorf("LastTimeout is set only at the end of the request: %v", err)
			default:
				cancel()
				wantType(t, "a caller that gives up", <-ended, context.Canceled)
			}
		})
	}
}

// LastTimeout does not count a stop before its grace period has passed.
func TestLastTimeoutOfAStopIsAfterItsGrace(t *testing.T) {
	f := newFakeServer(t)
	f.handle("POST /containers/slow/stop", f.hang())
	c := f.dial(200 * time.Millisecond)
	ctx, cancel := context.WithTimeout(testContext(t), 600*time.Millisecond)
	defer cancel()
	wantType(t, "with the caller's deadline", c.StopContainer(ctx, "slow", time.Second), context.DeadlineExceeded)
	testutil.Assert(t, c.LastTimeout().IsZero(), "LastTimeout counts a stop within its grace period")
}
