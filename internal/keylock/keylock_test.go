package keylock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func mustLock(t *testing.T, l *Locks, key string) func() {
	t.Helper()
	unlock, err := l.Lock(t.Context(), key)
	testutil.Require(t, err == nil, "Lock(%q): %v", key, err)
	return unlock
}

func requireNoKeys(t *testing.T, l *Locks) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	testutil.Assert(t, len(l.keys) == 0, "%d keys are still held in memory: %v", len(l.keys), l.keys)
}

func TestOneHolderPerKey(t *testing.T) {
	const workers, rounds = 16, 200
	var l Locks
	counters := map[string]*int{"a": new(int), "b": new(int), "c": new(int)}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				for key, n := range counters {
					unlock, err := l.Lock(t.Context(), key)
					if err != nil {
						t.Errorf("Lock(%q): %v", key, err)
						return
					}
					*n++ // the race detector and the sum catch two holders
					unlock()
				}
			}
		})
	}
	wg.Wait()
	for key, n := range counters {
		testutil.Assert(t, *n == workers*rounds, "counter %q is %d, want %d", key, *n, workers*rounds)
	}
	requireNoKeys(t, &l)
}

func TestOtherKeysDoNotWait(t *testing.T) {
	var l Locks
	unlockA := mustLock(t, &l, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	unlockB, err := l.Lock(ctx, "b")
	testutil.Require(t, err == nil, "lock of b waits for the holder of a: %v", err)
	unlockB()
	unlockA()
	requireNoKeys(t, &l)
}

func TestWaiterLeavesWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		unlock := mustLock(t, &l, "pod")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := l.Lock(ctx, "pod")
		testutil.Require(t, errors.Is(err, context.DeadlineExceeded),
			"error is %v, want one that wraps DeadlineExceeded", err)
		testutil.Equal(t, time.Since(start), time.Second, "waited")
		unlock()
		mustLock(t, &l, "pod")()
		requireNoKeys(t, &l)
	})
}

func TestEndedContextNeverGetsALock(t *testing.T) {
	var l Locks
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, err := l.Lock(ctx, "free")
		testutil.Require(t, errors.Is(err, context.Canceled), "error is %v, want one that wraps Canceled", err)
	}
	requireNoKeys(t, &l)
}

func TestUnlockCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		unlock := mustLock(t, &l, "pod")
		unlock()
		unlockSecond := mustLock(t, &l, "pod")
		unlock() // must not release the second holder's lock
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Lock(ctx, "pod")
		testutil.Require(t, errors.Is(err, context.DeadlineExceeded),
			"a repeated unlock released another caller's lock (error %v)", err)
		unlockSecond()
		requireNoKeys(t, &l)
	})
}

func TestWaitersGetTheLockInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		unlock := mustLock(t, &l, "pod")
		order := make(chan int, 10)
		for i := range 10 {
			go func() {
				unlock, err := l.Lock(t.Context(), "pod")
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
					return
				}
				order <- i
				unlock()
			}()
			synctest.Wait() // waiter i is queued before the next one comes
		}
		unlock()
		synctest.Wait()
		for want := range 10 {
			got := <-order
			testutil.Require(t, got == want, "waiter %d got the lock, want waiter %d", got, want)
		}
		requireNoKeys(t, &l)
	})
}

func TestCancelledWaitersLeaveNothingBehind(t *testing.T) {
	var l Locks
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*100*time.Microsecond)
			defer cancel()
			unlock, err := l.Lock(ctx, fmt.Sprintf("key-%d", i%3))
			if err != nil {
				return
			}
			time.Sleep(50 * time.Microsecond)
			unlock()
		})
	}
	wg.Wait()
	requireNoKeys(t, &l)
}
