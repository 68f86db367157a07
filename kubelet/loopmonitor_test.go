package kubelet

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/prober"
)

// TestLoopThatHangs: a loop that hangs or rests for more than five minutes is not healthy.
func TestLoopThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resync = time.Minute
		loop := testLoop(t)
		loop.tick, loop.housekeeping = time.Second, 24*time.Hour
		loop.objects, loop.prober = podconfig.NewObjects(), prober.New(t.Context(), prober.Options{})
		state := make(chan error)
		var away error
		loop.runtimeErr = func() error {
			select {
			case away = <-state:
			default:
			}
			if errors.Is(away, errHangs) {
				away = <-state
			}
			return away
		}
		healthy := func(when string, resync time.Duration, want bool) {
			t.Helper()
			err := loop.monitor.err(resync)
			testutil.Assert(t, (err == nil) == want, "%s: %v, want healthy: %v", when, err, want)
		}
		healthy("before it runs", resync, true)
		go loop.run(t.Context())
		time.Sleep(time.Hour)
		healthy("while it runs", resync, true)
		for _, why := range []error{errors.New("away"), errHangs} {
			state <- why
			time.Sleep(4 * time.Minute)
			healthy(why.Error()+" for less than five minutes", resync, true)
			time.Sleep(2 * time.Minute)
			healthy(why.Error()+" for more than five minutes", resync, false)
			healthy(why.Error()+" with a resync of an hour", time.Hour, true)
			state <- nil
			time.Sleep(10 * time.Second)
			healthy("no longer "+why.Error(), resync, true)
		}
	})
}

var errHangs = errors.New("hangs")
