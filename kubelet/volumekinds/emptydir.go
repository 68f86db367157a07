package volumekinds

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
	"github.com/criadapter/criadapter/kubelet/model"
)

// emptyDir is the pod's own directory, on disk or in memory. A volume without a source is one, too.
var emptyDir = Kind{
	Field:     "emptyDir",
	Directory: "empty-dir",
	Writable:  true,
	validate: func(pod *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
		of := source.EmptyDir
		errs := fieldcheck.OneOf(at.Child("medium"), of.Medium, v1.StorageMediumDefault, v1.StorageMediumMemory)
		if of.SizeLimit != nil && of.Medium != v1.StorageMediumMemory && model.IsStatic(pod) {
			errs = append(errs, field.Forbidden(at.Child("sizeLimit"), "only a limit in memory can be kept: a static pod is never evicted"))
		}
		return errs
	},
	describe: func(source *v1.VolumeSource) string {
		if source.EmptyDir != nil && source.EmptyDir.Medium == v1.StorageMediumMemory {
			return "empty, in memory"
		}
		return "empty"
	},
}
