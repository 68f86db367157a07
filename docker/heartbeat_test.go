package docker

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The client notes the time of each answer, and of each request that waits too long. A request that its caller gives up
// early is not noted.
func TestLastAnswerAndTimeout(t *testing.T) {
	f := newFakeServer(t)
	f.handle("GET /containers/hangs/json", f.hang())
	c := f.dial(300 * time.Millisecond)
	ctx := testContext(t)
	testutil.Assert(t, c.LastAnswer().IsZero() && c.LastTimeout().IsZero(),
		"something is noted before the first request")
	for _, call := range []func() error{
		func() error { return c.Ping(ctx) },
		func() error { return c.RemoveContainer(ctx, "unknown") }, // an error is an answer
	} {
		before := time.Now()
		_ = call()
		if !c.LastAnswer().After(before) {
			t.Errorf("an answer is not noted, the last one is %v", c.LastAnswer())
		}
	}
	answered := c.LastAnswer()
	hurry, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := c.InspectContainer(hurry, "hangs")
	wantType(t, "with the caller's deadline", err, context.DeadlineExceeded)
	testutil.Assert(t, c.LastTimeout().IsZero(), "the caller's deadline is noted")
	_, err = c.InspectContainer(ctx, "hangs")
	wantType(t, "without an answer", err, errdefs.ErrUnavailable)
	if c.LastTimeout().IsZero() || !c.LastAnswer().Equal(answered) {
		t.Errorf("last answer at %v, want %v; last timeout at %v", c.LastAnswer(), answered, c.LastTimeout())
	}
}

// CRI requests have deadlines that are earlier than the client's. A hanging engine is noted nevertheless, while the
// request still waits.
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
			testutil.Until(t, "the missing answer is noted", func() bool { return !c.LastTimeout().IsZero() })
			select {
			case err := <-ended:
				t.Errorf("it is noted at the end of the request: %v", err)
			default:
				cancel()
				wantType(t, "a caller that gives up", <-ended, context.Canceled)
			}
		})
	}
}

// A stop is not noted as hanging before its grace period has passed.
func TestLastTimeoutOfAStopIsAfterItsGrace(t *testing.T) {
	f := newFakeServer(t)
	f.handle("POST /containers/slow/stop", f.hang())
	c := f.dial(200 * time.Millisecond)
	ctx, cancel := context.WithTimeout(testContext(t), 600*time.Millisecond)
	defer cancel()
	wantType(t, "with the caller's deadline", c.StopContainer(ctx, "slow", time.Second), context.DeadlineExceeded)
	testutil.Assert(t, c.LastTimeout().IsZero(), "a stop within its grace period is noted")
}
