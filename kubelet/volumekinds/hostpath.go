package volumekinds

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
)

// hostPath is a path of the host. It is not the pod's own, so it is never relabelled for it.
var hostPath = Kind{
	Field:       "hostPath",
	Writable:    true,
	setDefaults: func(source *v1.VolumeSource) { fillPointer(&source.HostPath.Type, v1.HostPathUnset) },
	validate: func(_ *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
		errs := fieldcheck.Required(at.Child("path"), source.HostPath.Path)
		errs = append(errs, fieldcheck.NoBacksteps(at.Child("path"), source.HostPath.Path)...)
		return append(errs, fieldcheck.OneOf(at.Child("type"), *source.HostPath.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate,
			v1.HostPathDirectory, v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)...)
	},
	describe: func(source *v1.VolumeSource) string { return "the host's " + source.HostPath.Path },
}
