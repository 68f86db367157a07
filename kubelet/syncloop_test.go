package kubelet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestLoopRestsWhileTheRuntimeIsNotReady: the pauses begin with 100 ms and double up to 5 s, with a jitter of a tenth.
func TestLoopRestsWhileTheRuntimeIsNotReady(t *testing.T) {
	logger := logrus.StandardLogger()
	level, hooks := logger.GetLevel(), logger.ReplaceHooks(logrus.LevelHooks{})
	hook := logtest.NewGlobal()
	logger.SetLevel(logrus.DebugLevel)
	defer func() {
		logger.SetLevel(level)
		logger.ReplaceHooks(hooks)
	}()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 19*time.Second)
		defer cancel()
		loop := &syncLoop{
			tick: time.Second, housekeeping: 2 * time.Second, runtimeErr: func() error {
				return errors.New("it is away")
			},
		}
		loop.run(ctx)
		testutil.Equal(t, time.Since(began), 19*time.Second, "the run time of a loop with a context of 19s")
		var looks []time.Duration
		for _, entry := range hook.AllEntries() {
			if strings.Contains(entry.Message, "not ready") {
				looks = append(looks, entry.Time.Sub(began))
			}
		}
		for i, pause := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			testutil.Require(t, len(looks) == 9, "the loop checked the runtime after %v", looks)
			least := pause * time.Millisecond // and up to a tenth more
			got := looks[i+1] - looks[i]
			testutil.Assert(t, got >= least && got <= least+least/10, "pause %d was %v, want from %v on", i, got, least)
		}
	})
}
