package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// ErrRegistryUnavailable is the type of a failed pull whose registry could not be reached or answered with a server
// error. It is not errdefs.ErrUnavailable, which means that the engine is away.
var ErrRegistryUnavailable = errors.New("registry unavailable")

// ErrMediaType is the type of a failed pull of content that the engine does not keep, such as an OCI artifact.
var ErrMediaType = errors.New("unsupported media type")

// op describes a request: its name in error messages, and its time limit.
type op struct {
	verb, object string
	// kind is the kind of the object. With noObject, the object's name is not checked.
	kind objectKind
	// bound is the longest time that the request may take. With zero, only the caller's context bounds the request.
	bound time.Duration
	// grace is the part of bound in which a missing answer is normal, because a stop waits for its container.
	grace time.Duration
	// endless marks a request that lasts as long as the connection and is not
	// observed.
	endless bool
}

func (o op) String() string {
	if o.object == "" {
		return o.verb
	}
	return o.verb + " " + o.object
}

// typed turns the moby client's errors into the errors that Engine promises:
//
//   - an answer of the engine keeps the type of its HTTP status,
//   - the end of the caller's context stays a context error,
//   - an engine that cannot be reached, cuts its answer short or does not
//     answer within the request timeout becomes ErrUnavailable,
//   - anything else (an answer that is not understood) becomes ErrInternal.
//
// ctx is the caller's context, not the request's context that is derived from it.
func typed(ctx context.Context, o op, err error) error {
	switch {
	case err == nil:
		return nil
	case hasType(err):
		return fmt.Errorf("%s: %w", o, engineAnswer{err})
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", o, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		// Not wrapped: the request's own deadline has passed, and the caller's has not.
		return fmt.Errorf("%s: %w: no answer within %s", o, errdefs.ErrUnavailable, o.bound)
	case isDisconnect(err):
		return fmt.Errorf("%s: %w: %w", o, errdefs.ErrUnavailable, err)
	default:
		return fmt.Errorf("%s: %w: %w", o, errdefs.ErrInternal, err)
	}
}

// engineAnswer is an error from the engine, with the engine's own text alone.
type engineAnswer struct{ error }

// clientPrefix is the moby client's prefix of the engine's error text.
const clientPrefix = "Error response from daemon: "

func (a engineAnswer) Error() string { return strings.TrimPrefix(a.error.Error(), clientPrefix) }

func (a engineAnswer) Unwrap() error { return a.error }

// described is an error of the type kind, with a text that need not repeat the text of kind.
type described struct {
	kind error
	text string
}

func (d described) Error() string { return d.text }

func (d described) Unwrap() error { return d.kind }

// isDisconnect reports whether the engine could not be reached or went away in
// the middle of an answer.
func isDisconnect(err error) bool {
	// A deadline is a net.Error too, and says nothing about the connection.
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	if client.IsErrConnectionFailed(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) {
		return true
	}
	var netErr net.Error
	found := errors.As(err, &netErr)
	// The error of a file, such as a note on a full disk, wraps an Errno, which is a net.Error, too.
	_, ofFile := netErr.(syscall.Errno)
	return found && !ofFile
}

// hasType reports whether err carries a type of errdefs or of this package.
func hasType(err error) bool {
	for _, t := range []error{
		errdefs.ErrNotFound, errdefs.ErrConflict, errdefs.ErrInvalidArgument, errdefs.ErrFailedPrecondition,
		errdefs.ErrUnavailable, errdefs.ErrNotImplemented, errdefs.ErrAlreadyExists, errdefs.ErrPermissionDenied,
		errdefs.ErrUnauthenticated, errdefs.ErrResourceExhausted, errdefs.ErrInternal, errdefs.ErrNotModified,
		errdefs.ErrUnknown, ErrRegistryUnavailable, ErrMediaType,
	} {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// IgnoreNotFound returns err, or nil for an errdefs.ErrNotFound.
func IgnoreNotFound(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// refusal returns the error for an engine that criadapter does not work with. Operators read its text in the Status
// RPC, and in the error of every call.
func refusal(format string, args ...any) error {
	return errdefs.ErrFailedPrecondition.WithMessage(fmt.Sprintf(format, args...))
}
