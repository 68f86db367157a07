package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// A request after the start waits for the first relist as long as its client does, unless the engine is away.
func TestRequestsWaitForTheFirstSync(t *testing.T) {
	for name, tc := range map[string]struct {
		syncedAfter    time.Duration
		recoveredAfter time.Duration // 0 for nothing to recover
		deadline       time.Duration // 0 for none
		engineErr      error
		answered       bool
		within         time.Duration
	}{
		"the client waits": {syncedAfter: 5 * time.Second, deadline: 2 * time.Minute,
			engineErr: state.ErrStarting, answered: true, within: 5 * time.Second},
		"the client sets no deadline": {syncedAfter: 5 * time.Second, engineErr: state.ErrStarting,
			answered: true, within: 5 * time.Second},
		"the client waits two seconds": {syncedAfter: 5 * time.Second, deadline: 2 * time.Second,
			engineErr: state.ErrStarting, within: 2*time.Second - answerTime},
		"the client waits less than a second": {syncedAfter: 5 * time.Second, deadline: time.Second / 2,
			engineErr: state.ErrStarting, within: time.Second / 2},
		"it takes too long": {syncedAfter: time.Hour, deadline: 2 * time.Minute,
			engineErr: state.ErrStarting, within: firstSync + longestSync},
		"logs are being completed": {recoveredAfter: 3 * time.Second, deadline: 2 * time.Minute, answered: true,
			within: 3 * time.Second},
		"logs take longer than the client": {recoveredAfter: 5 * time.Second, deadline: 2 * time.Second,
			within: 2*time.Second - answerTime},
		"the engine is away": {syncedAfter: time.Hour, deadline: 2 * time.Minute, engineErr: errAway,
			within: firstSync},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := nodeWithPod()
				n.cache.unsynced, n.cache.err, n.cache.synced = true, tc.engineErr, make(chan struct{})
				sync := time.AfterFunc(tc.syncedAfter, func() { close(n.cache.synced) })
				defer sync.Stop()
				if tc.recoveredAfter != 0 {
					recovered := make(chan struct{})
					n.opts.Recovered = recovered
					defer time.AfterFunc(tc.recoveredAfter, func() { close(recovered) }).Stop()
				}
				ctx, cancel := context.WithCancel(t.Context())
				if tc.deadline != 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
				}
				defer cancel()
				begun := time.Now()
				response, err := n.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
				testutil.Equal(t, time.Since(begun), tc.within, "took")
				if tc.answered && (err != nil || len(response.GetItems()) != 1) {
					t.Errorf("got %v, %v", response, err)
				}
				if !tc.answered && !errdefs.IsUnavailable(err) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, %v, want Unavailable", response, err)
				}
			})
		})
	}
}
