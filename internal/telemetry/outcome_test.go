package telemetry

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/containerd/errdefs"
)

func TestOutcome(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{context.Canceled, "canceled"},
		{context.DeadlineExceeded, "deadline_exceeded"},
		{errdefs.ErrNotFound, "not_found"},
		{errdefs.ErrConflict, "conflict"},
		{errdefs.ErrAlreadyExists, "conflict"},
		{errdefs.ErrInvalidArgument, "invalid_argument"},
		{errdefs.ErrUnauthenticated, "denied"},
		{errdefs.ErrPermissionDenied, "denied"},
		{errdefs.ErrFailedPrecondition, "refused"},
		{errdefs.ErrNotImplemented, "refused"},
		{errdefs.ErrUnavailable, "unavailable"},
		{errors.New("whatever"), "error"},
		// An engine call that was cut off is both; who gave up counts.
		{fmt.Errorf("%w: %w", errdefs.ErrUnavailable, context.Canceled), "canceled"},
	} {
		if got := outcome(test.err); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
		if test.err == nil {
			continue
		}
		if got := outcome(fmt.Errorf("more of it: %w", test.err)); got != test.want {
			t.Errorf("%v, wrapped: %s, want %s", test.err, got, test.want)
		}
	}
}
