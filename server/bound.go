package server

import (
	"context"
	"math"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// bound gives a request whose client set no deadline one of ours, so that no
// request waits for ever for an engine that hangs:
//
//   - StopContainer, CheckpointContainer and ExecSync get their own timeout and the request timeout
//     for the rest; an ExecSync without timeout may run for ever (CRI text),
//   - PullImage is bounded by its progress,
//   - everything else gets the request timeout, CheckpointPod and RestorePod too: CRI has
//     no timeout for them, and how long they take depends on the memory of their pods.
//
// A client's own deadline always counts, longer or shorter.
func (s *Server) bound(ctx context.Context, req any) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	limit := s.opts.RequestTimeout
	switch r := req.(type) {
	case *runtimeapi.PullImageRequest:
		return ctx, func() {}
	case *runtimeapi.ExecSyncRequest:
		if r.GetTimeout() == 0 {
			return ctx, func() {}
		}
		limit = longer(limit, r.GetTimeout())
	case *runtimeapi.CheckpointContainerRequest:
		limit = longer(limit, r.GetTimeout())
	case *runtimeapi.StopContainerRequest:
		limit = longer(limit, r.GetTimeout())
	}
	return context.WithTimeout(ctx, limit)
}

// longer adds n seconds to limit. Nonsense, which the handler refuses, leaves it as it is.
func longer(limit time.Duration, n int64) time.Duration {
	extra, err := seconds("timeout", n)
	if err != nil || extra > math.MaxInt64-limit {
		return limit
	}
	return limit + extra
}
