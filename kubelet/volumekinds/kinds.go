package volumekinds

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind is one kind of volume. Its functions get a source of the kind and do not change it, but for Default. Functions
// that are nil do nothing.
type Kind struct {
	// Field is the name of the volume's source in manifests.
	Field string
	// Honoured are the fields that are honoured below Field, in the notation of package manifest. Empty means all.
	Honoured []string
	// Directory is <kind> in the volume's directory kubernetes.io~<kind>. A hostPath and an image have none.
	Directory string
	// InMemory says that the directory is a tmpfs, so that no secret reaches a disk.
	InMemory bool
	// Writable says that containers may write to it; otherwise its content is the kubelet's.
	Writable bool

	// setDefaults sets what the API server would set.
	setDefaults func(source *v1.VolumeSource)
	// validate names the fields that are wrong. At is the path of Field.
	validate func(pod *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList
	// references are the objects whose content the volume shows.
	references func(source *v1.VolumeSource) []reference
	// Files are what the volume holds now. A kind without them is mounted by package volumemanager.
	Files func(ctx context.Context, in Input, source *v1.VolumeSource) (Files, error)
	// describe says for a person what the volume is.
	describe func(source *v1.VolumeSource) string
}

// Kinds are all kinds.
func Kinds() []Kind {
	return []Kind{emptyDir, hostPath, configMap, secret, downwardAPI, projected, image}
}

// refused are the sources that the kubelet core does not have: storage of a cluster, which needs plugins, and content
// that only controllers of a cluster can give.
var refused = []string{
	"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "ephemeral", "fc", "flexVolume", "flocker",
	"gcePersistentDisk", "gitRepo", "glusterfs", "iscsi", "nfs", "persistentVolumeClaim", "photonPersistentDisk",
	"portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
}

// fields are the names of the sources that are set, in the order of v1.VolumeSource.
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

// fieldName is a field's name in manifests.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Lookup returns the kind of a source's name.
func Lookup(name string) (Kind, bool) {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Field == name })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

// Of returns the kind of a volume. One without any source is an emptyDir, as the API server defaults it; of several
// sources, which Validate refuses, it is the first. A source that is not in the table is an errdefs.ErrNotImplemented.
func Of(source *v1.VolumeSource) (Kind, error) {
	set := fields(source)
	if len(set) == 0 {
		return emptyDir, nil
	}
	kind, ok := Lookup(set[0])
	if !ok {
		return Kind{}, fmt.Errorf("%s: the kubelet core has no such volumes: %w", set[0], errdefs.ErrNotImplemented)
	}
	return kind, nil
}

// Default sets in every source what the API server would set.
func Default(source *v1.VolumeSource) {
	for _, name := range fields(source) {
		if kind, ok := Lookup(name); ok && kind.setDefaults != nil {
			kind.setDefaults(source)
		}
	}
}

// Validate names the fields of a volume's source that are wrong, with defaults set. Sources that are not in the table
// are not its business: package manifest refuses every field that is not honoured.
func Validate(pod *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	set := slices.DeleteFunc(fields(source), func(name string) bool { return slices.Contains(refused, name) })
	if len(set) > 1 {
		errs = append(errs, field.Forbidden(at, "a volume has one source"))
	}
	for _, name := range set {
		if kind, ok := Lookup(name); ok && kind.validate != nil {
			errs = append(errs, kind.validate(pod, source, at.Child(name))...)
		}
	}
	return errs
}

// shownBy are the objects whose content a volume shows.
func shownBy(source *v1.VolumeSource) []reference {
	var found []reference
	for _, name := range fields(source) {
		if kind, ok := Lookup(name); ok && kind.references != nil {
			found = append(found, kind.references(source)...)
		}
	}
	return found
}

// Describe says for a person what a volume is.
func Describe(source *v1.VolumeSource) string {
	kind, err := Of(source)
	if err != nil {
		return err.Error()
	}
	return kind.describe(source)
}
