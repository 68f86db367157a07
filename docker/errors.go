package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// typed turns what the moby client returns into what Engine promises:
//
//   - an answer of the engine keeps the type that its HTTP status has,
//   - the end of the caller's context stays a context error,
//   - an engine that cannot be reached, cuts its answer short or does not
//     answer within the request timeout becomes ErrUnavailable,
//   - anything else (an answer that is not understood) becomes ErrInternal.
//
// ctx is the caller's context, not the one derived from it for the request.
func typed(ctx context.Context, o op, err error) error {
	switch {
	case err == nil:
		return nil
	case hasType(err):
		return fmt.Errorf("%s: %w", o, engineAnswer{err})
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", o, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		// Not wrapped: the caller's deadline has not passed, ours has.
		return fmt.Errorf("%s: %w: no answer within %s", o, errdefs.ErrUnavailable, o.bound)
	case isDisconnect(err):
		return fmt.Errorf("%s: %w: %w", o, errdefs.ErrUnavailable, err)
	default:
		return fmt.Errorf("%s: %w: %w", o, errdefs.ErrInternal, err)
	}
}

// engineAnswer is an error that the engine answered, in the engine's own words alone.
type engineAnswer struct{ error }

// clientPrefix is what the moby client puts before the engine's words.
const clientPrefix = "Error response from daemon: "

func (a engineAnswer) Error() string { return strings.TrimPrefix(a.error.Error(), clientPrefix) }

func (a engineAnswer) Unwrap() error { return a.error }

// described is an error of a type, with a text that need not repeat the type.
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
	var netErr net.Error
	return client.IsErrConnectionFailed(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &netErr)
}

// hasType reports whether err carries a type of errdefs or of this package.
func hasType(err error) bool {
	for _, t := range []error{
		errdefs.ErrNotFound, errdefs.ErrConflict, errdefs.ErrInvalidArgument, errdefs.ErrFailedPrecondition,
		errdefs.ErrUnavailable, errdefs.ErrNotImplemented, errdefs.ErrAlreadyExists, errdefs.ErrPermissionDenied,
		errdefs.ErrUnauthenticated, errdefs.ErrResourceExhausted, errdefs.ErrInternal, errdefs.ErrNotModified,
		errdefs.ErrUnknown, ErrRegistryUnavailable,
	} {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// IgnoreNotFound is err, or nil for an errdefs.ErrNotFound: what is to be gone, or may be gone by now, is.
func IgnoreNotFound(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
