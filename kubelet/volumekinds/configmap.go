package volumekinds

import (
	"cmp"
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
)

// configMap is the data of a config map.
var configMap = Kind{
	Field:     "configMap",
	Honoured:  append(keyFields(""), "name", "defaultMode", "optional"),
	Directory: "configmap",
	setDefaults: func(source *v1.VolumeSource) {
		fillPointer(&source.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	},
	validate: func(_ *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
		return fieldcheck.Required(at.Child("name"), source.ConfigMap.Name)
	},
	references: func(source *v1.VolumeSource) []reference { return []reference{{ConfigMaps, source.ConfigMap.Name}} },
	Files: func(_ context.Context, in Input, source *v1.VolumeSource) (Files, error) {
		of := source.ConfigMap
		return in.configMap(of.Name, keys{items: of.Items, mode: mode(of.DefaultMode), optional: of.Optional})
	},
	describe: func(source *v1.VolumeSource) string { return "config map " + source.ConfigMap.Name },
}

// fillPointer sets a nil field.
func fillPointer[T any](field **T, value T) { *field = cmp.Or(*field, &value) }
