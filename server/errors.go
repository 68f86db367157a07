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

// kubeletSentinels are errors that the kubelet recognizes by the beginning of their text. They must be sent as
// codes.Unknown, because the kubelet's client strips "rpc error: code = …" from no other code.
var kubeletSentinels = []error{
	crierrors.ErrRegistryUnavailable,
	crierrors.ErrSignatureValidationFailed,
	crierrors.ErrRROUnsupported,
	crierrors.ErrImageVolumeMountFailed,
}

// codesOf maps the types of errors to gRPC codes. For an error of several types, the first counts: the caller's own
// deadline, then errors that the caller can fix.
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

// toStatus turns an error into a gRPC status. Except for kubeletSentinels, an error that is or wraps a status keeps the
// code and the details of that status.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, sentinel := range kubeletSentinels {
		if errors.Is(err, sentinel) {
			return status.Error(codes.Unknown, bounded(sentinelFirst(sentinel, err)))
		}
	}
	var known grpcError
	if errors.As(err, &known) && known.GRPCStatus().Code() != codes.OK {
		return wrapped(err, known)
	}
	for _, c := range codesOf {
		if c.is(err) {
			return status.Error(c.code, bounded(textOf(err)))
		}
	}
	return status.Error(codes.Unknown, bounded(err.Error()))
}

// grpcError is an error that has a gRPC status.
type grpcError interface {
	error
	GRPCStatus() *status.Status
}

// wrapped returns the gRPC status of known with the text of err as its message. err is known itself or wraps it.
// wrapped drops "rpc error: code = …", which known.Error() adds to its message.
func wrapped(err error, known grpcError) error {
	answer := known.GRPCStatus().Proto()
	answer.Message = bounded(strings.Replace(err.Error(), known.Error(), answer.GetMessage(), 1))
	return status.ErrorProto(answer)
}

// maxText bounds a status's text, in bytes. Registries, plugins and images add text to errors. Clients refuse a header
// of megabytes, and their users would not see the error.
const maxText = 16 << 10

// bounded cuts a long text between two characters.
func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + fmt.Sprintf("… (%d bytes more)", len(text)-maxText)
}

// textOf returns the text of a typed error without the type's name at its end, if the gRPC code says the same. "not
// found" and the like stay, because they are the predicate of their sentence.
func textOf(err error) string {
	text := err.Error()
	for _, kind := range []error{errdefs.ErrInvalidArgument, errdefs.ErrFailedPrecondition, errdefs.ErrNotImplemented,
		errdefs.ErrInternal} {
		text = strings.TrimSuffix(text, ": "+kind.Error())
	}
	return text
}

// sentinelFirst returns the text of err with the sentinel at its beginning, where the kubelet looks for it.
func sentinelFirst(sentinel, err error) string {
	text := err.Error()
	if strings.HasPrefix(text, sentinel.Error()) {
		return text
	}
	return sentinel.Error() + ": " + text
}
