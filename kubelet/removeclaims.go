package kubelet

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// RemoveClaims removes claims of static pods with their files. The files of a persistent volume stay. A claim without a
// persistent volume stays while it is mounted. The error is then an errdefs.ErrFailedPrecondition.
func RemoveClaims(opts Options, claims []types.NamespacedName) error {
	if err := opts.complete(); err != nil {
		return err
	}
	var errs []error
	for _, claim := range claims {
		errs = append(errs, volumemanager.RemoveClaim(opts.ClaimsDir, claim.Namespace, claim.Name))
	}
	return errors.Join(errs...)
}
