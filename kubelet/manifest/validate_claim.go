package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
)

// claimFields and persistentVolumeFields are in the notation of honoured. The storage request of a claim does not bound
// its directory. It does not affect the binding either: a volume and a claim name each other.
const claimFields = `
apiVersion
kind
metadata.**
status.**
spec.accessModes[]
spec.resources.requests.storage
spec.storageClassName
spec.volumeMode
spec.volumeName
`

const persistentVolumeFields = `
apiVersion
kind
metadata.**
status.**
spec.accessModes[]
spec.capacity.storage
spec.claimRef.**
spec.hostPath.**
spec.local.path
spec.nodeAffinity.**
spec.persistentVolumeReclaimPolicy
spec.storageClassName
spec.volumeMode
`

func fieldSet(lines string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.FieldsSeq(lines) {
		set[line] = true
	}
	return set
}

func validateClaim(claim *v1.PersistentVolumeClaim) field.ErrorList {
	errs := refuseFields(claim, fieldSet(claimFields))
	errs = append(errs, check(field.NewPath("metadata", "name"), claim.Name, validation.IsDNS1123Subdomain)...)
	return append(errs, validateVolumeMode(claim.Spec.VolumeMode)...)
}

func validatePersistentVolume(volume *v1.PersistentVolume) field.ErrorList {
	errs := refuseFields(volume, fieldSet(persistentVolumeFields))
	errs = append(errs, check(field.NewPath("metadata", "name"), volume.Name, validation.IsDNS1123Subdomain)...)
	errs = append(errs, validateVolumeMode(volume.Spec.VolumeMode)...)
	spec := field.NewPath("spec")
	if policy := volume.Spec.PersistentVolumeReclaimPolicy; policy != "" {
		errs = append(errs,
			fieldcheck.OneOf(spec.Child("persistentVolumeReclaimPolicy"), policy, v1.PersistentVolumeReclaimRetain)...)
	}
	local, hostPath := volume.Spec.Local, volume.Spec.HostPath
	switch {
	case (local == nil) == (hostPath == nil):
		errs = append(errs, field.Required(spec.Child("local"), "set either local or hostPath"))
	case local != nil:
		errs = append(errs, fieldcheck.Absolute(spec.Child("local", "path"), local.Path)...)
	default:
		errs = append(errs, fieldcheck.Absolute(spec.Child("hostPath", "path"), hostPath.Path)...)
	}
	return errs
}

func validateVolumeMode(mode *v1.PersistentVolumeMode) field.ErrorList {
	if mode == nil {
		return nil
	}
	return fieldcheck.OneOf(field.NewPath("spec", "volumeMode"), *mode, v1.PersistentVolumeFilesystem)
}
