package volumekinds

import (
	"fmt"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
	"github.com/criadapter/criadapter/kubelet/model"
)

// emptyDir is the pod's own directory, on disk or in memory. A volume without a source is an emptyDir, too.
var emptyDir = Kind{
	Field:     "emptyDir",
	Honoured:  []string{"medium", "sizeLimit"},
	Directory: "empty-dir",
	Writable:  true,
	validate: func(_ *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
		return fieldcheck.OneOf(at.Child("medium"), source.EmptyDir.Medium, v1.StorageMediumDefault,
			v1.StorageMediumMemory)
	},
	Mount: func(host Host, path string, pod *v1.Pod, source *v1.VolumeSource) error {
		of := ptr.Deref(source.EmptyDir, v1.EmptyDirVolumeSource{})
		switch of.Medium {
		case v1.StorageMediumDefault:
			return host.Directory(path, pod)
		case v1.StorageMediumMemory:
			// The pages of a tmpfs count as the pod's memory.
			limits, size := model.PodResources(pod).Limits, ptr.Deref(of.SizeLimit, resource.Quantity{})
			return host.Tmpfs(path, pod, limits.Memory().Value(), size.Value())
		default:
			return fmt.Errorf("emptyDir.medium: %q is neither empty nor Memory: %w",
				of.Medium, errdefs.ErrNotImplemented)
		}
	},
	describe: func(source *v1.VolumeSource) string {
		if source.EmptyDir != nil && source.EmptyDir.Medium == v1.StorageMediumMemory {
			return "empty, in memory"
		}
		return "empty"
	},
}
