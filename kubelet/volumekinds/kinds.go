package volumekinds

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind is a kind of volume. Its functions get a source of the kind. Only setDefaults may change it. Nil functions do
// nothing.
type Kind struct {
	// Field is the name of the kind's field in manifests.
	Field string
	// Honoured are the supported fields below Field, in the notation of package manifest. Later fields of the API are
	// not among them, so that they are refused.
	Honoured []string
	// Directory is <kind> in the volume's directory kubernetes.io~<kind>. It is empty for a hostPath, a claim
	// and an image.
	Directory string
	// InMemory puts the files on a tmpfs, so that no secret reaches a disk.
	InMemory bool
	// Writable says that containers may write to the volume.
	Writable bool

	// setDefaults sets the API server's defaults.
	setDefaults func(source *v1.VolumeSource)
	// validate returns the errors of the source. At is the path of Field.
	validate func(pod *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList
	// references returns the objects whose content the volume has.
	references func(source *v1.VolumeSource) []reference
	// Files is the current content of a volume that is a directory of files. A kind has either Files or Mount.
	Files func(ctx context.Context, in Input, source *v1.VolumeSource) (Files, error)
	// Mount makes the volume at path, for a kind without Files. It may be repeated, and never changes existing content.
	Mount func(host Host, path string, pod *v1.Pod, source *v1.VolumeSource) error
	// describe describes the volume for users.
	describe func(source *v1.VolumeSource) string
}

// Plugin returns the name of the kubelet's plugin for the kind, as metrics have it. A claim has the name of its field,
// because its plugin depends on the persistent volume.
func (k *Kind) Plugin() string {
	name := cmp.Or(k.Directory, k.Field)
	if k.Field == hostPath.Field {
		name = "host-path"
	}
	return "kubernetes.io/" + name
}

// Host makes directories that containers may write to, and gives them to the pod's fsGroup. It does not change existing
// ones. Package volumemanager has the implementation.
type Host interface {
	// Directory makes a directory on disk.
	Directory(path string, pod *v1.Pod) error
	// Tmpfs makes a directory in memory. Each limit bounds its content in bytes; 0 means none. The memory that the node
	// has for pods bounds it, too.
	Tmpfs(path string, pod *v1.Pod, limits ...int64) error
	// Claim makes the directory of a claim, or checks the path of the persistent volume that is bound to it.
	Claim(pod *v1.Pod, name string) error
}

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{emptyDir, hostPath, persistentVolumeClaim, configMap, secret, downwardAPI, projected, image}
}

// refused are the unsupported sources: cluster storage, which needs plugins, and content from controllers of a cluster.
var refused = []string{
	"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "ephemeral", "fc", "flexVolume",
	"flocker",
	"gcePersistentDisk", "gitRepo", "glusterfs", "iscsi", "nfs", "photonPersistentDisk",
	"portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
}

// fields returns the names of the sources that are set, in the order of v1.VolumeSource.
func fields(source *v1.VolumeSource) []string {
	var set []string
	value := reflect.ValueOf(source).Elem()
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			set = append(set, fieldName(value.Type().Field(i)))
		}
	}
	return set
}

// fieldName returns a field's name in manifests.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// lookup returns the Kind with this Field.
func lookup(name string) (Kind, bool) {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Field == name })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

// Of returns the kind of a volume. Without a source it is an emptyDir, the API server's default. Of several sources,
// which Validate refuses, the first one counts. An unsupported source is an errdefs.ErrNotImplemented.
func Of(source *v1.VolumeSource) (Kind, error) {
	set := fields(source)
	if len(set) == 0 {
		return emptyDir, nil
	}
	kind, ok := lookup(set[0])
	if !ok {
		return Kind{}, fmt.Errorf("%s: the kubelet core has no such volumes: %w", set[0], errdefs.ErrNotImplemented)
	}
	return kind, nil
}

// Default sets the API server's defaults in each source.
func Default(source *v1.VolumeSource) {
	for _, name := range fields(source) {
		if kind, ok := lookup(name); ok && kind.setDefaults != nil {
			kind.setDefaults(source)
		}
	}
}

// Validate returns the errors of a volume's source, which has its defaults. It ignores unsupported sources: package
// manifest refuses all unsupported fields.
func Validate(pod *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	set := slices.DeleteFunc(fields(source), func(name string) bool { return slices.Contains(refused, name) })
	if len(set) > 1 {
		errs = append(errs, field.Forbidden(at, "a volume has one source"))
	}
	for _, name := range set {
		if kind, ok := lookup(name); ok && kind.validate != nil {
			errs = append(errs, kind.validate(pod, source, at.Child(name))...)
		}
	}
	return errs
}

// shownBy returns the objects whose content a volume has.
func shownBy(source *v1.VolumeSource) []reference {
	var found []reference
	for _, name := range fields(source) {
		if kind, ok := lookup(name); ok && kind.references != nil {
			found = append(found, kind.references(source)...)
		}
	}
	return found
}

// Describe describes a volume for users.
func Describe(source *v1.VolumeSource) string {
	kind, err := Of(source)
	if err != nil {
		return err.Error()
	}
	return kind.describe(source)
}
