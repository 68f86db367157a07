package image

import (
	"errors"
	"fmt"

	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
)

// pullError says which image could not be pulled. Trouble of the registry gets
// the sentinel that the kubelet reads, first in the text. Engines verify no
// signatures, so SignatureValidationFailed has no source here.
func pullError(ref string, err error) error {
	if errors.Is(err, docker.ErrRegistryUnavailable) {
		return fmt.Errorf("%w: pull %q: %w", crierrors.ErrRegistryUnavailable, ref, err)
	}
	return fmt.Errorf("pull %q: %w", ref, err)
}
