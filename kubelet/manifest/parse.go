package manifest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/criadapter/criadapter/internal/yamldoc"
)

// Documents is the content of a manifest without defaults.
type Documents struct {
	Pods []*v1.Pod
	Objects
}

// Objects are the objects that pods refer to.
type Objects struct {
	ConfigMaps        []*v1.ConfigMap
	Secrets           []*v1.Secret
	PersistentVolumes []*v1.PersistentVolume
	Claims            []*v1.PersistentVolumeClaim
}

// Append adds other objects, even if objects with their names are there already.
func (o *Objects) Append(other Objects) {
	o.ConfigMaps = append(o.ConfigMaps, other.ConfigMaps...)
	o.Secrets = append(o.Secrets, other.Secrets...)
	o.PersistentVolumes = append(o.PersistentVolumes, other.PersistentVolumes...)
	o.Claims = append(o.Claims, other.Claims...)
}

// Add adds other objects. They replace objects with the same kind, namespace and name.
func (o *Objects) Add(other Objects) {
	o.ConfigMaps = replaced(o.ConfigMaps, other.ConfigMaps)
	o.Secrets = replaced(o.Secrets, other.Secrets)
	o.PersistentVolumes = replaced(o.PersistentVolumes, other.PersistentVolumes)
	o.Claims = replaced(o.Claims, other.Claims)
}

// replaced returns the later objects, and the earlier ones with other names.
func replaced[T metav1.Object](earlier, later []T) []T {
	named := map[types.NamespacedName]bool{}
	for _, object := range later {
		named[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = true
	}
	kept := slices.DeleteFunc(slices.Clone(earlier), func(object T) bool {
		return named[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}]
	})
	return append(kept, later...)
}

// Empty reports whether there are no objects.
func (o Objects) Empty() bool {
	return len(o.ConfigMaps)+len(o.Secrets)+len(o.PersistentVolumes)+len(o.Claims) == 0
}

// Decode adds the JSON object in raw. It returns false for any kind that Objects does not have.
func (o *Objects) Decode(kind string, raw []byte) (known bool, err error) {
	switch kind {
	case "ConfigMap":
		return true, Decode(raw, &o.ConfigMaps)
	case "Secret":
		return true, Decode(raw, &o.Secrets)
	case "PersistentVolume":
		return true, decodeValid(raw, &o.PersistentVolumes, validatePersistentVolume)
	case "PersistentVolumeClaim":
		return true, decodeValid(raw, &o.Claims, validateClaim)
	}
	return false, nil
}

// decodeValid is Decode for an object that must be valid.
func decodeValid[T any](raw []byte, list *[]*T, validate func(*T) field.ErrorList) error {
	var read []*T
	if err := Decode(raw, &read); err != nil {
		return err
	}
	if errs := validate(read[0]); len(errs) > 0 {
		return fmt.Errorf("%w: %w", errs.ToAggregate(), errdefs.ErrInvalidArgument)
	}
	*list = append(*list, read[0])
	return nil
}

// Parse reads all documents of a manifest. The error joins the errors of each document, with its number from 1 and the
// field. The other documents are returned anyway. A manifest without documents is an error, too: it is most likely
// still being written.
func Parse(content []byte) (Documents, error) {
	var docs Documents
	var errs []error
	found := 0
	for _, text := range yamldoc.Split(content) {
		empty, err := docs.add(text)
		if !empty {
			found++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", found, err))
		}
	}
	if found == 0 {
		errs = append(errs,
			fmt.Errorf("it has no document; remove the file to remove its pods: %w", errdefs.ErrInvalidArgument))
	}
	return docs, errors.Join(errs...)
}

// add decodes one document. empty means that it has only comments.
func (d *Documents) add(text []byte) (empty bool, err error) {
	raw, err := yamldoc.JSON(text)
	if err != nil {
		return false, err
	}
	if string(raw) == "null" {
		return true, nil
	}
	var meta metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &meta); err != nil {
		return false, fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	if meta.APIVersion != "v1" {
		return false, fmt.Errorf("apiVersion: %q is not v1: %w", meta.APIVersion, errdefs.ErrInvalidArgument)
	}
	switch meta.Kind {
	case "Pod":
		return false, Decode(raw, &d.Pods)
	case "PodList":
		return false, d.addList(raw)
	}
	known, err := d.Objects.Decode(meta.Kind, raw)
	if !known {
		return false, fmt.Errorf("kind: %q is not one of Pod, PodList, ConfigMap, Secret, PersistentVolume, "+
			"PersistentVolumeClaim: %w", meta.Kind, errdefs.ErrInvalidArgument)
	}
	return false, err
}

func (d *Documents) addList(raw []byte) error {
	var list []*v1.PodList
	if err := Decode(raw, &list); err != nil {
		return err
	}
	for i := range list[0].Items {
		d.Pods = append(d.Pods, &list[0].Items[i])
	}
	return nil
}

// Decode appends the JSON object in raw to list. An unknown or duplicate field is an errdefs.ErrInvalidArgument.
func Decode[T any](raw []byte, list *[]*T) error {
	object := new(T)
	strict, err := kjson.UnmarshalStrict(raw, object)
	if err := errors.Join(append(strict, err)...); err != nil {
		return fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	*list = append(*list, object)
	return nil
}
