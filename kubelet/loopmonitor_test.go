package kubelet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoopThatHangs is not healthy as long as it hangs. One that rests because the runtime is away goes on.
func TestLoopThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resync = time.Minute
		hang := make(chan struct{})
		began := time.Now()
		loop := &syncLoop{tick: time.Second, housekeeping: time.Second, runtimeErr: func() error {
			if time.Since(began) > time.Hour {
				<-hang
			}
			return errors.New("away")
		}}
		if err := loop.monitor.err(resync); err != nil {
			t.Errorf("before it runs: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go loop.run(ctx)
		time.Sleep(time.Hour)
		if err := loop.monitor.err(resync); err != nil {
			t.Errorf("while it runs: %v", err)
		}
		time.Sleep(4 * time.Minute)
		if err := loop.monitor.err(resync); err != nil {
			t.Errorf("after less than %v: %v", minLoopLimit, err)
		}
		time.Sleep(2 * time.Minute)
		if err := loop.monitor.err(resync); err == nil {
			t.Error("it hangs and is healthy")
		}
		if err := loop.monitor.err(time.Hour); err != nil {
			t.Errorf("with a resync of an hour: %v", err)
		}
		close(hang)
		time.Sleep(10 * time.Second)
		if err := loop.monitor.err(resync); err != nil {
			t.Errorf("after it hung: %v", err)
		}
		cancel()
	})
}
