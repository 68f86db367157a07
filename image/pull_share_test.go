package image

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// outcome has the results of a call of pulls.do.
type outcome struct {
	id  string
	err error
}

func begin(ctx context.Context, p *pulls, key pullKey, transfer func(context.Context) (string, error)) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		id, err := p.do(ctx, key, transfer)
		done <- outcome{id, err}
	}()
	return done
}

func TestConcurrentPullsShareOneTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		var transfers atomic.Int32
		release := make(chan struct{})
		transfer := func(context.Context) (string, error) {
			transfers.Add(1)
			<-release
			return "sha256:1", nil
		}
		key := newPullKey("busybox", nil)
		first, second := begin(t.Context(), &p, key, transfer), begin(t.Context(), &p, key, transfer)
		synctest.Wait()
		close(release)
		for _, done := range []<-chan outcome{first, second} {
			got := <-done
			testutil.Assert(t, got.id == "sha256:1" && got.err == nil, "got %+v", got)
		}
		testutil.Equal(t, transfers.Load(), 1, "transfers")
		if _, err := p.do(t.Context(), key, transfer); err != nil || transfers.Load() != 2 {
			t.Errorf("a pull after the shared one: %v, %d transfers, want another one", err, transfers.Load())
		}
	})
}

func TestPullOutlivesTheCallerThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		release := make(chan struct{})
		transfer := func(ctx context.Context) (string, error) {
			select {
			case <-release:
				return "sha256:1", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		key := newPullKey("busybox", nil)
		ctx, cancel := context.WithCancel(t.Context())
		first := begin(ctx, &p, key, transfer)
		synctest.Wait()
		second := begin(t.Context(), &p, key, transfer)
		synctest.Wait()
		cancel()
		got := <-first
		testutil.Assert(t, errors.Is(got.err, context.Canceled), "the cancelled caller got %+v", got)
		close(release)
		if got := <-second; got.id != "sha256:1" || got.err != nil {
			t.Errorf("the other caller got %+v", got)
		}
	})
}

func TestPullEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		var transfers atomic.Int32
		ended := make(chan struct{}, 2)
		transfer := func(ctx context.Context) (string, error) {
			transfers.Add(1)
			<-ctx.Done()
			time.Sleep(time.Second) // an engine that takes its time to give up
			ended <- struct{}{}
			return "", ctx.Err()
		}
		key := newPullKey("busybox", nil)
		ctx, cancel := context.WithCancel(t.Context())
		one, two := begin(ctx, &p, key, transfer), begin(ctx, &p, key, transfer)
		synctest.Wait()
		cancel()
		<-one
		<-two
		// A transfer without callers is ending. A new caller must not get its failure.
		late, cancelLate := context.WithCancel(t.Context())
		third := begin(late, &p, key, transfer)
		synctest.Wait()
		testutil.Equal(t, transfers.Load(), 2, "transfers")
		cancelLate()
		<-third
		<-ended
		<-ended
	})
}

// A transfer that panics fails for its callers. The next pull begins another one.
func TestPanicInATransferFailsItsPulls(t *testing.T) {
	var p pulls
	key := newPullKey("busybox", nil)
	_, err := p.do(t.Context(), key, func(context.Context) (string, error) { panic("a defect") })
	testutil.Assert(t, errdefs.IsInternal(err) && !strings.Contains(err.Error(), "a defect"), "got %v", err)
	id, err := p.do(t.Context(), key, func(context.Context) (string, error) { return "sha256:1", nil })
	testutil.Assert(t, id == "sha256:1" && err == nil, "the next pull: %q, %v", id, err)
}

func TestPullsWithOtherCredentialsAreNotShared(t *testing.T) {
	keys := []pullKey{
		newPullKey("busybox", nil),
		newPullKey("busybox", &docker.Auth{}),
		newPullKey("busybox", &docker.Auth{Username: "a", Password: "1"}),
		newPullKey("busybox", &docker.Auth{Username: "a", Password: "2"}),
		newPullKey("busybox:2", nil),
	}
	for i, a := range keys {
		for j, b := range keys {
			testutil.Assert(t, (a == b) == (i == j), "keys %d and %d: equal is %t", i, j, a == b)
		}
	}
}
