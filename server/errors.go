package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	crierrors "k8s.io/cri-api/pkg/errors"
)

// kubeletSentinels are the errors that the kubelet knows by the beginning of their text. They must go out as
// codes.Unknown, because its client strips "rpc error: code = …" from no other code.
var kubeletSentinels = []error{
	crierrors.ErrRegistryUnavailable,
	crierrors.ErrSignatureValidationFailed,
	crierrors.ErrRROUnsupported,
	crierrors.ErrImageVolumeMountFailed,
}

// codesOf pairs the types of errors inside with gRPC codes. The order counts for an error of several types: the
// caller's own deadline comes first, then what the caller can do something about.
var codesOf = []struct {
	is   func(error) bool
	code codes.Code
}{
	{func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, codes.DeadlineExceeded},
	{func(err error) bool { return errors.Is(err, context.Canceled) }, codes.Canceled},
	{errdefs.IsInvalidArgument, codes.InvalidArgument},
	{errdefs.IsOutOfRange, codes.InvalidArgument},
	{errdefs.IsNotFound, codes.NotFound},
	{errdefs.IsAlreadyExists, codes.AlreadyExists},
	{errdefs.IsUnavailable, codes.Unavailable},
	{errdefs.IsFailedPrecondition, codes.FailedPrecondition},
	{errdefs.IsConflict, codes.FailedPrecondition},
	{errdefs.IsNotImplemented, codes.Unimplemented},
	{errdefs.IsPermissionDenied, codes.PermissionDenied},
	{errdefs.IsUnauthorized, codes.Unauthenticated},
	{errdefs.IsResourceExhausted, codes.ResourceExhausted},
	{errdefs.IsAborted, codes.Aborted},
	{errdefs.IsDataLoss, codes.DataLoss},
	{errdefs.IsInternal, codes.Internal},
}

// toStatus turns an error into a gRPC status. It is the only place that does.
// An error that is a status already passes as it is.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, sentinel := range kubeletSentinels {
		if errors.Is(err, sentinel) {
			return status.Error(codes.Unknown, bounded(sentinelFirst(sentinel, err)))
		}
	}
	var known interface{ GRPCStatus() *status.Status }
	if errors.As(err, &known) {
		return known.GRPCStatus().Err()
	}
	for _, c := range codesOf {
		if c.is(err) {
			return status.Error(c.code, bounded(textOf(err)))
		}
	}
	return status.Error(codes.Unknown, bounded(err.Error()))
}

// maxText bounds a status's text, in bytes. Texts of registries, plugins and images are among what errors say, and one of
// megabytes is a header that clients refuse, so that they would learn nothing.
const maxText = 16 << 10

// bounded cuts a text that is too long, between two characters.
func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + fmt.Sprintf("… (%d bytes more)", len(text)-maxText)
}

// textOf is the text of a typed error without the name of its type at the end where that says no more than the code.
// "not found" and the like stay: they are the predicate of their sentence.
func textOf(err error) string {
	text := err.Error()
	for _, kind := range []error{errdefs.ErrInvalidArgument, errdefs.ErrFailedPrecondition, errdefs.ErrNotImplemented, errdefs.ErrInternal} {
		text = strings.TrimSuffix(text, ": "+kind.Error())
	}
	return text
}

// sentinelFirst is the text of err with the sentinel at its beginning, where the kubelet looks for it.
func sentinelFirst(sentinel, err error) string {
	text := err.Error()
	if strings.HasPrefix(text, sentinel.Error()) {
		return text
	}
	return sentinel.Error() + ": " + text
}
