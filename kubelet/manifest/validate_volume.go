package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

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
		errs = append(errs, volumekinds.Validate(pod, &volume.VolumeSource, at)...)
	}
	return errs
}
