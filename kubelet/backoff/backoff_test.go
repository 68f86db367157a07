package backoff

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		if b.Remaining("k", time.Now()) != 0 {
			t.Error("the first failure waits")
		}
		for _, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			b.Fail("k", time.Now())
			if got := b.Remaining("k", time.Now()); got != want*time.Second {
				t.Errorf("the pause is %v, want %v", got, want*time.Second)
			}
			time.Sleep(want*time.Second + time.Second)
			if got := b.Remaining("k", time.Now().Add(-want*time.Second-time.Second)); got != 0 {
				t.Errorf("after the pause %v remain", got)
			}
		}
		if b.Remaining("other", time.Now()) != 0 {
			t.Error("another key waits, too")
		}
		time.Sleep(11 * time.Minute)
		if got := b.Remaining("k", time.Now()); got != 0 {
			t.Errorf("what ran well for long waits %v", got)
		}
		b.Fail("k", time.Now())
		if got := b.Remaining("k", time.Now()); got != 10*time.Second {
			t.Errorf("after a good time the pause is %v", got)
		}
		b.Forget(func(key string) bool { return key == "k" })
		if b.Remaining("k", time.Now()) != 0 || !b.Failed("k").IsZero() {
			t.Error("not forgotten")
		}
	})
}
