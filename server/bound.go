package server

import (
	"context"
	"math"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// bound adds a deadline to a request whose client set none, so that no request waits for ever for an engine that hangs:
//
//   - StopContainer, CheckpointContainer and ExecSync get their own timeout plus the request timeout. An ExecSync
//     without a timeout may run for ever (CRI text).
//   - PullImage is bounded by its progress.
//   - All others get the request timeout. This includes CheckpointPod and RestorePod, for which CRI has no timeout.
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
		limit = extended(limit, r.GetTimeout())
	case *runtimeapi.CheckpointContainerRequest:
		limit = extended(limit, r.GetTimeout())
	case *runtimeapi.StopContainerRequest:
		limit = extended(limit, r.GetTimeout())
	}
	return context.WithTimeout(ctx, limit)
}

// extended returns limit plus n seconds. It ignores a value that the handler refuses.
func extended(limit time.Duration, n int64) time.Duration {
	extra, err := seconds("timeout", n)
	if err != nil || extra > math.MaxInt64-limit {
		return limit
	}
	return limit + extra
}
