package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestToStatus(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("pod web: %w", err) }
	for _, test := range []struct {
		name string
		err  error
		want codes.Code
	}{
		{"invalid argument", wrap(errdefs.ErrInvalidArgument), codes.InvalidArgument},
		{"out of range", wrap(errdefs.ErrOutOfRange), codes.InvalidArgument},
		{"not found", wrap(errdefs.ErrNotFound), codes.NotFound},
		{"already exists", wrap(errdefs.ErrAlreadyExists), codes.AlreadyExists},
		{"unavailable", wrap(errdefs.ErrUnavailable), codes.Unavailable},
		{"failed precondition", wrap(errdefs.ErrFailedPrecondition), codes.FailedPrecondition},
		{"conflict", wrap(errdefs.ErrConflict), codes.FailedPrecondition},
		{"not implemented", wrap(errdefs.ErrNotImplemented), codes.Unimplemented},
		{"permission denied", wrap(errdefs.ErrPermissionDenied), codes.PermissionDenied},
		{"unauthenticated", wrap(errdefs.ErrUnauthenticated), codes.Unauthenticated},
		{"resource exhausted", wrap(errdefs.ErrResourceExhausted), codes.ResourceExhausted},
		{"aborted", wrap(errdefs.ErrAborted), codes.Aborted},
		{"data loss", wrap(errdefs.ErrDataLoss), codes.DataLoss},
		{"internal", wrap(errdefs.ErrInternal), codes.Internal},
		{"unknown", wrap(errdefs.ErrUnknown), codes.Unknown},
		{"untyped", errors.New("?"), codes.Unknown},
		{"deadline", wrap(context.DeadlineExceeded), codes.DeadlineExceeded},
		{"cancelled", wrap(context.Canceled), codes.Canceled},
		{"deadline while the engine was away", errors.Join(errdefs.ErrUnavailable, context.DeadlineExceeded),
			codes.DeadlineExceeded},
		{"a status already", wrap(status.Error(codes.ResourceExhausted, "full")), codes.ResourceExhausted},
		{"a sentinel of another type",
			fmt.Errorf("%w: x: %w", crierrors.ErrRegistryUnavailable, errdefs.ErrUnavailable), codes.Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := toStatus(test.err)
			testutil.Equal(t, status.Code(err), test.want, "code")
			testutil.Assert(t, status.Convert(err).Message() != "", "the message is lost")
		})
	}
	testutil.Assert(t, toStatus(nil) == nil, "nil became an error")
}

// TestLongTextsAreCut checks that the client gets the code and the beginning of an error of any length.
func TestLongTextsAreCut(t *testing.T) {
	endless := strings.Repeat("ö", 10<<20)
	for want, err := range map[codes.Code]error{
		codes.PermissionDenied: fmt.Errorf("pull image x: %s: %w", endless, errdefs.ErrPermissionDenied),
		codes.Unknown:          fmt.Errorf("%w: %s", crierrors.ErrRegistryUnavailable, endless),
		codes.Aborted:          status.Error(codes.Aborted, endless),
	} {
		got := status.Convert(toStatus(err))
		testutil.Assert(t, got.Code() == want && len(got.Message()) <= maxText+100 && utf8.ValidString(got.Message()) &&
			strings.HasSuffix(got.Message(), " bytes more)"),
			"code %v and %d bytes: %.60s", got.Code(), len(got.Message()), got.Message())
	}
}

// TestTextsDoNotRepeatTheCode compares the texts that a user sees.
func TestTextsDoNotRepeatTheCode(t *testing.T) {
	for want, err := range map[string]error{
		"config is required": fmt.Errorf("config is required: %w", errdefs.ErrInvalidArgument),
		"not found":          errdefs.ErrNotFound,
		"pod web: is gone":   fmt.Errorf("pod web: %w", errdefs.ErrNotFound.WithMessage("is gone")),
		"not found: pod web": fmt.Errorf("%w: pod web", errdefs.ErrNotFound),
		"pod web: not found": fmt.Errorf("pod web: %w", errdefs.ErrNotFound),
		"plugin: is full":    fmt.Errorf("plugin: %w", status.Error(codes.ResourceExhausted, "is full")),
	} {
		testutil.Equal(t, status.Convert(toStatus(err)).Message(), want, "message")
	}
}

// TestSentinelsComeFirst looks for a sentinel like the kubelet: at the beginning of the message, after the client has
// stripped the code.
func TestSentinelsComeFirst(t *testing.T) {
	for _, sentinel := range kubeletSentinels {
		for _, err := range []error{
			sentinel,
			fmt.Errorf("%w: because", sentinel),
			fmt.Errorf("mount /data: %w", sentinel),
		} {
			got := status.Convert(toStatus(err))
			testutil.Assert(t, got.Code() == codes.Unknown && strings.HasPrefix(got.Message(), sentinel.Error()),
				"%v went out as %s %q", err, got.Code(), got.Message())
		}
	}
}
