package volumekinds

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Claims has the volumes of claims.
type Claims interface {
	// Claim returns the persistent volume that is bound to a claim, nil without one. A claim that names a missing
	// volume is an errdefs.ErrNotFound.
	Claim(namespace, name string) (*v1.PersistentVolume, error)
}

// persistentVolumeClaim is a directory of this machine that outlives the pod.
var persistentVolumeClaim = Kind{
	Field:    "persistentVolumeClaim",
	Honoured: []string{"claimName", "readOnly"},
	Writable: true,
	validate: func(pod *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
		if !model.IsStatic(pod) {
			return field.ErrorList{
				field.Forbidden(at, "only a static pod can have a claim, because claims are local directories"),
			}
		}
		var errs field.ErrorList
		for _, message := range validation.IsDNS1123Subdomain(source.PersistentVolumeClaim.ClaimName) {
			errs = append(errs, field.Invalid(at.Child("claimName"), source.PersistentVolumeClaim.ClaimName, message))
		}
		return errs
	},
	Mount: func(host Host, _ string, pod *v1.Pod, source *v1.VolumeSource) error {
		return host.Claim(pod, source.PersistentVolumeClaim.ClaimName)
	},
	describe: func(source *v1.VolumeSource) string { return "the claim " + source.PersistentVolumeClaim.ClaimName },
}

// OfPersistentVolume returns a persistent volume's path on the host, with the type that the path must have. It returns
// nil for a volume that is neither local nor a hostPath.
func OfPersistentVolume(volume *v1.PersistentVolume) *v1.HostPathVolumeSource {
	if local := volume.Spec.Local; local != nil {
		// A missing directory may be a disk that is not mounted.
		return &v1.HostPathVolumeSource{Path: local.Path, Type: new(v1.HostPathDirectory)}
	}
	return volume.Spec.HostPath
}
