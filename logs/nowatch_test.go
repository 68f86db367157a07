package logs

import (
	"errors"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The kernel limits inotify instances and watches per user, and other programs may use them up. Then logs are polled.
// They are watched again when the kernel has a free watch.
func TestWithoutInotify(t *testing.T) {
	if testutil.InUserNamespace(t) {
		return
	}
	for _, lack := range []string{"instances", "watches"} {
		t.Run(lack, func(t *testing.T) {
			testutil.LimitInotify(t, lack, 0)
			defer testutil.LimitInotify(t, lack, 1000)
			o := newTestLog(t, 2, 2000)
			s := New(Options{lookPeriod: 20 * time.Millisecond})
			defer s.Close()
			o.s = s
			o.start()
			var want []string
			write := func() { // with rotations
				for range 5 {
					want = append(want, o.engine.lines(len(want)+1, len(want)+20)...)
					o.wait(len(want))
				}
			}
			write()
			testutil.Equal(t, s.Unwatched(), 1, "logs are not watched")
			testutil.LimitInotify(t, lack, 1000)
			testutil.Until(t, "all logs are watched", func() bool { return s.Unwatched() == 0 })
			write()
			testutil.LimitInotify(t, lack, 0) // again, while the log is followed
			write()
			o.want(want)
			testutil.Equal(t, s.Unwatched(), 0, "logs are not watched, and none is followed")
		})
	}
}

// After an inotify instance has failed, a new instance wakes the followers.
func TestWatchThatIsLost(t *testing.T) {
	o := follow(t, 2, 1<<20)
	want := o.engine.lines(1, 3)
	o.wait(3)
	o.s.watch.lose(errors.New("no memory"))
	want = append(want, o.engine.lines(4, 6)...)
	o.wait(6)
	want = append(want, o.engine.lines(7, 9)...)
	o.wait(9)
	o.want(want)
}
