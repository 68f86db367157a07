package volumekinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// File is one file of a volume.
type File struct {
	Data []byte
	Mode fs.FileMode
	// Owner is the user that the file belongs to, nil for root.
	Owner *int64
}

// Files are a volume's files by their path in it.
type Files map[string]File

// Input is what files are made of.
type Input struct {
	Pod *v1.Pod
	// Objects is required for config maps and secrets.
	Objects Objects
	// Tokens is required for service account tokens; without it they are an errdefs.ErrNotImplemented.
	Tokens Tokens
	// Allocatable is what pods can have of the node: the downward API shows it for limits that a container does not
	// have.
	Allocatable v1.ResourceList
}

// Objects is where the config maps and secrets of a pod's namespace come from. Which ones a pod may see depends on
// where the pod itself comes from, so the pod is asked for, and not its namespace. A missing one is an
// errdefs.ErrNotFound. The answers are shared: they must not be changed.
type Objects interface {
	ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error)
	Secret(pod *v1.Pod, name string) (*v1.Secret, error)
}

// Tokens issues service account tokens; *token.Manager is one.
type Tokens interface {
	// Token returns a token that is good for now, bound to the pod.
	Token(ctx context.Context, pod *v1.Pod, projection *v1.ServiceAccountTokenProjection) (string, error)
	// Forget drops the tokens of a pod that is gone.
	Forget(uid types.UID)
}

// Resource is a config map or a secret.
type Resource string

// The resources that volumes refer to.
const (
	ConfigMaps Resource = "configmap"
	Secrets    Resource = "secret"
)

// reference names an object of the pod's namespace.
type reference struct {
	Resource Resource
	Name     string
}

// mode is the mode of files that do not have one of their own; 0644 is what the API server sets.
func mode(set *int32) fs.FileMode {
	if set == nil {
		return fs.FileMode(v1.ConfigMapVolumeSourceDefaultMode)
	}
	return fs.FileMode(*set).Perm()
}

func itemMode(own *int32, otherwise fs.FileMode) fs.FileMode {
	if own == nil {
		return otherwise
	}
	return fs.FileMode(*own).Perm()
}

// keys says which keys of an object become files, and how.
type keys struct {
	items    []v1.KeyToPath
	mode     fs.FileMode
	optional *bool
}

func (k keys) mayMiss() bool { return k.optional != nil && *k.optional }

// pick makes files of an object's data: all of it, or the items.
func (k keys) pick(object string, data map[string][]byte) (Files, error) {
	files := Files{}
	if len(k.items) == 0 {
		for key, value := range data {
			files[key] = File{Data: value, Mode: k.mode}
		}
		return files, nil
	}
	for _, item := range k.items {
		value, ok := data[item.Key]
		if !ok {
			if k.mayMiss() {
				continue
			}
			return nil, fmt.Errorf("%s has no key %q: %w", object, item.Key, errdefs.ErrNotFound)
		}
		files[filepath.Clean(item.Path)] = File{Data: value, Mode: itemMode(item.Mode, k.mode)}
	}
	return files, nil
}

// missing is an empty volume where the object is optional and does not exist.
func (k keys) missing(err error) (Files, error) {
	if k.mayMiss() && errors.Is(err, errdefs.ErrNotFound) {
		return Files{}, nil
	}
	return nil, err
}

func (in Input) configMap(name string, k keys) (Files, error) {
	object, err := in.Objects.ConfigMap(in.Pod, name)
	if err != nil {
		return k.missing(err)
	}
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, object.BinaryData)
	return k.pick(fmt.Sprintf("configmap %q", in.Pod.Namespace+"/"+name), data)
}

func (in Input) secret(name string, k keys) (Files, error) {
	object, err := in.Objects.Secret(in.Pod, name)
	if err != nil {
		return k.missing(err)
	}
	return k.pick(fmt.Sprintf("secret %q", in.Pod.Namespace+"/"+name), object.Data)
}
