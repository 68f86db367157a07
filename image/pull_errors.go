package image

import (
	"errors"
	"fmt"

	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
)

// pullError adds the kubelet's sentinel to an engine error that means a failure of the registry.
func pullError(err error) error {
	if errors.Is(err, docker.ErrRegistryUnavailable) {
		return fmt.Errorf("%w: %w", crierrors.ErrRegistryUnavailable, err)
	}
	return err
}
