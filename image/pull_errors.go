package image

import (
	"errors"
	"fmt"

	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
)

// pullError puts the sentinel that the kubelet reads before an error of the
// engine that means a failure of the registry. Engines verify no signatures, so
// SignatureValidationFailed has no source here.
func pullError(err error) error {
	if errors.Is(err, docker.ErrRegistryUnavailable) {
		return fmt.Errorf("%w: %w", crierrors.ErrRegistryUnavailable, err)
	}
	return err
}
