package telemetry

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
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
		// The error of a cancelled engine call also says unavailable. The cancellation takes precedence.
		{fmt.Errorf("%w: %w", errdefs.ErrUnavailable, context.Canceled), "canceled"},
	} {
		testutil.Equal(t, outcome(test.err), test.want, "%v", test.err)
		if test.err == nil {
			continue
		}
		testutil.Equal(t, outcome(fmt.Errorf("more of it: %w", test.err)), test.want, "%v, wrapped", test.err)
	}
}
