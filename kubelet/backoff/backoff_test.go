package backoff

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The longest pause bounds the first one, too.
func TestShortBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{Max: time.Second})
		for range 2 {
			b.Fail("k", time.Now())
			testutil.Equal(t, b.Remaining("k", time.Now()), time.Second, "the pause")
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		testutil.Assert(t, b.Remaining("k", time.Now()) == 0, "a key without a failure waits")
		for _, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			b.Fail("k", time.Now())
			testutil.Equal(t, b.Remaining("k", time.Now()), want*time.Second, "the pause")
			testutil.Equal(t, b.Pause("k"), want*time.Second, "the whole pause")
			time.Sleep(want*time.Second + time.Second)
			testutil.Equal(t, b.Remaining("k", time.Now().Add(-want*time.Second-time.Second)), 0, "after the pause")
		}
		testutil.Assert(t, b.Remaining("other", time.Now()) == 0, "another key waits, too")
		time.Sleep(11 * time.Minute)
		testutil.Equal(t, b.Remaining("k", time.Now()), 0, "the pause after a long time without a failure")
		b.Fail("k", time.Now())
		testutil.Equal(t, b.Remaining("k", time.Now()), 10*time.Second,
			"the first pause after a long time without a failure")
		b.Forget(func(key string) bool { return key == "k" })
		testutil.Assert(t, b.Remaining("k", time.Now()) == 0 && b.Failed("k").IsZero(), "not forgotten")
	})
}

// TestClockSetBack: the clock was set back after a failure, so the failure's time is in the future. The pause is as
// long as usual.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, back := range []time.Duration{5 * time.Second, time.Minute} {
			b := New(Options{})
			b.Fail("k", time.Now())
			time.Sleep(time.Minute) // it runs
			failed := time.Now().Add(back)
			testutil.Equal(t, b.Remaining("k", failed), 10*time.Second, "the pause")
			time.Sleep(10 * time.Second)
			testutil.Equal(t, b.Remaining("k", failed), 0, "after the pause")
		}
	})
}
