package image

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	crierrors "k8s.io/cri-api/pkg/errors"
)

// registryTroubles are the words with which Go's network library, the registry
// client and the engine say that a registry could not be reached or is not
// able to serve. A pull that fails so is not typed by any engine: the text is
// all that the progress stream carries.
var registryTroubles = []string{
	"connection refused",
	"connection reset by peer",
	"network is unreachable",
	"no route to host",
	"no such host",
	"server misbehaving",
	"i/o timeout",
	"TLS handshake timeout",
	"Client.Timeout exceeded",
	"Internal Server Error",
	"Bad Gateway",
	"Service Unavailable",
	"Gateway Timeout",
}

// pullError says which image could not be pulled. Trouble of the registry gets
// the sentinel that the kubelet reads, first in the text. Engines verify no
// signatures, so SignatureValidationFailed has no source here.
func pullError(ref string, err error) error {
	if registryTrouble(err) {
		return fmt.Errorf("%w: pull %q: %w", crierrors.ErrRegistryUnavailable, ref, err)
	}
	return fmt.Errorf("pull %q: %w", ref, err)
}

// registryTrouble reports whether err is the registry's or the way's to it. An
// error with a type of its own is not: the engine itself is away, the image is
// not there, the caller is gone.
func registryTrouble(err error) bool {
	typed := errdefs.IsUnavailable(err) || errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) ||
		errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) || errdefs.IsNotImplemented(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if typed {
		return false
	}
	text := err.Error()
	for _, trouble := range registryTroubles {
		if strings.Contains(text, trouble) {
			return true
		}
	}
	return false
}
