package volumekinds

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
	"github.com/criadapter/criadapter/kubelet/model"
)

// image is the files of an image. The runtime mounts them into each container.
var image = Kind{
	Field:    "image",
	Honoured: []string{"reference", "pullPolicy"},
	setDefaults: func(source *v1.VolumeSource) {
		of := source.Image
		of.PullPolicy = cmp.Or(of.PullPolicy, model.DefaultPullPolicy(of.Reference))
	},
	validate: func(_ *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
		errs := fieldcheck.Required(at.Child("reference"), source.Image.Reference)
		return append(errs,
			fieldcheck.OneOf(at.Child("pullPolicy"), source.Image.PullPolicy, v1.PullAlways, v1.PullIfNotPresent,
				v1.PullNever)...)
	},
	Mount:    func(Host, string, *v1.Pod, *v1.VolumeSource) error { return nil },
	describe: func(source *v1.VolumeSource) string { return "image " + source.Image.Reference },
}
