package logs

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The kernel's inotify instances and watches are those of a user, so that others may have used them up. Logs come
// nevertheless, and are watched as soon as there are some.
func TestWithoutInotify(t *testing.T) {
	if testutil.InUserNamespace(t) {
		return
	}
	for _, lack := range []string{"instances", "watches"} {
		t.Run(lack, func(t *testing.T) {
			testutil.LimitInotify(t, lack, 0)
			defer testutil.LimitInotify(t, lack, 1000)
			s := New(Options{lookPeriod: 20 * time.Millisecond})
			defer s.Close()
			enginePath, logPath := paths(t)
			engine := newEngineLog(t, enginePath, 2, 2000)
			start(t, s, localLog(enginePath, logPath))
			var want []string
			write := func() { // with rotations
				for range 5 {
					want = append(want, engine.lines(len(want)+1, len(want)+20)...)
					waitLines(t, logPath, len(want))
				}
			}
			write()
			if n := s.Unwatched(); n != 1 {
				t.Errorf("%d logs are not watched, want 1", n)
			}
			testutil.LimitInotify(t, lack, 1000)
			testutil.Eventually(t, func() error {
				if n := s.Unwatched(); n != 0 {
					return fmt.Errorf("%d logs are still not watched", n)
				}
				return nil
			})
			write()
			testutil.LimitInotify(t, lack, 0) // again, while it is followed
			write()
			wantLog(t, s, logPath, want)
			if n := s.Unwatched(); n != 0 {
				t.Errorf("%d logs are not watched, and none is followed", n)
			}
		})
	}
}

// An instance that fails is made anew.
func TestWatchThatIsLost(t *testing.T) {
	s := newService(t)
	enginePath, logPath := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	start(t, s, localLog(enginePath, logPath))
	want := engine.lines(1, 3)
	waitLines(t, logPath, 3)
	s.watch.lose(errors.New("no memory"))
	want = append(want, engine.lines(4, 6)...)
	waitLines(t, logPath, 6)
	want = append(want, engine.lines(7, 9)...)
	waitLines(t, logPath, 9)
	wantLog(t, s, logPath, want)
}
