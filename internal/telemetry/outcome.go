package telemetry

import (
	"context"
	"errors"

	"github.com/containerd/errdefs"
)

// outcome is the result of an operation: ok, or the kind of its error. The number of kinds is fixed.
func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled), errdefs.IsCanceled(err):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errdefs.IsDeadlineExceeded(err):
		return "deadline_exceeded"
	case errdefs.IsNotFound(err):
		return "not_found"
	case errdefs.IsConflict(err), errdefs.IsAlreadyExists(err):
		return "conflict"
	case errdefs.IsInvalidArgument(err):
		return "invalid_argument"
	case errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err):
		return "denied"
	case errdefs.IsFailedPrecondition(err), errdefs.IsNotImplemented(err):
		return "refused"
	case errdefs.IsUnavailable(err):
		return "unavailable"
	default:
		return "error"
	}
}
