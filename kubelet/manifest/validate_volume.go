package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/model"
)

// minTokenLife is the shortest life of a service account token that the API server grants, in seconds.
const minTokenLife = 10 * 60

func validateVolumes(pod *v1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range pod.Spec.Volumes {
		volume, at := &pod.Spec.Volumes[i], path.Index(i)
		errs = append(errs, check(at.Child("name"), volume.Name, validation.IsDNS1123Label)...)
		if seen[volume.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), volume.Name))
		}
		seen[volume.Name] = true
		errs = append(errs, validateSource(volume, at)...)
		errs = append(errs, validateTokens(pod, volume.Projected, at.Child("projected"))...)
	}
	return errs
}

func validateSource(volume *v1.Volume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	sources := 0
	for _, set := range []bool{
		volume.EmptyDir != nil, volume.HostPath != nil, volume.ConfigMap != nil, volume.Secret != nil,
		volume.DownwardAPI != nil, volume.Projected != nil, volume.Image != nil,
	} {
		if set {
			sources++
		}
	}
	if sources > 1 {
		errs = append(errs, field.Forbidden(at, "a volume has one source"))
	}
	if source := volume.HostPath; source != nil {
		if source.Path == "" {
			errs = append(errs, field.Required(at.Child("hostPath", "path"), ""))
		}
		errs = append(errs, noBacksteps(at.Child("hostPath", "path"), source.Path)...)
		errs = append(errs, oneOf(at.Child("hostPath", "type"), *source.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
			v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)...)
	}
	if source := volume.ConfigMap; source != nil && source.Name == "" {
		errs = append(errs, field.Required(at.Child("configMap", "name"), ""))
	}
	if source := volume.Secret; source != nil && source.SecretName == "" {
		errs = append(errs, field.Required(at.Child("secret", "secretName"), ""))
	}
	if source := volume.Image; source != nil {
		if source.Reference == "" {
			errs = append(errs, field.Required(at.Child("image", "reference"), ""))
		}
		errs = append(errs, oneOf(at.Child("image", "pullPolicy"), source.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	}
	if source := volume.EmptyDir; source != nil {
		errs = append(errs, oneOf(at.Child("emptyDir", "medium"), source.Medium, v1.StorageMediumDefault, v1.StorageMediumMemory)...)
		if source.SizeLimit != nil && source.Medium != v1.StorageMediumMemory {
			errs = append(errs, field.Forbidden(at.Child("emptyDir", "sizeLimit"), "only a limit in memory can be kept: nothing is evicted here"))
		}
	}
	return errs
}

// validateTokens looks at the service account tokens of a projected volume, nil for none. The API server knows nothing of
// static pods, so it gives them none.
func validateTokens(pod *v1.Pod, volume *v1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	if volume == nil {
		return nil
	}
	var errs field.ErrorList
	for i := range volume.Sources {
		token, at := volume.Sources[i].ServiceAccountToken, at.Child("sources").Index(i).Child("serviceAccountToken")
		if token == nil {
			continue
		}
		if model.IsStatic(pod) {
			errs = append(errs, field.Forbidden(at, "a static pod has no service account"))
			continue
		}
		if token.Path == "" {
			errs = append(errs, field.Required(at.Child("path"), ""))
		}
		errs = append(errs, noBacksteps(at.Child("path"), token.Path)...)
		if token.ExpirationSeconds != nil {
			errs = append(errs, atLeast(at.Child("expirationSeconds"), *token.ExpirationSeconds, minTokenLife)...)
		}
	}
	return errs
}
