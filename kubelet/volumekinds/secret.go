package volumekinds

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
)

// secret is the data of a secret.
var secret = Kind{
	Field:     "secret",
	Honoured:  append(keyFields(""), "secretName", "defaultMode", "optional"),
	Directory: "secret",
	InMemory:  true,
	setDefaults: func(source *v1.VolumeSource) {
		fillPointer(&source.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	},
	validate: func(_ *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
		return fieldcheck.Required(at.Child("secretName"), source.Secret.SecretName)
	},
	references: func(source *v1.VolumeSource) []reference { return []reference{{Secrets, source.Secret.SecretName}} },
	Files: func(_ context.Context, in Input, source *v1.VolumeSource) (Files, error) {
		of := source.Secret
		return in.secret(of.SecretName, keys{items: of.Items, mode: mode(of.DefaultMode), optional: of.Optional})
	},
	describe: func(source *v1.VolumeSource) string { return "secret " + source.Secret.SecretName },
}
