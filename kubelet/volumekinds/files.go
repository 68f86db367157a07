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
	// Owner is the owner's user id, nil for root.
	Owner *int64
}

// Files are a volume's files, by their path in it.
type Files map[string]File

// Input is the input of Kind.Files.
type Input struct {
	Pod *v1.Pod
	// Objects is required for config maps and secrets.
	Objects Objects
	// Tokens is required for service account tokens. Without it they are an errdefs.ErrNotImplemented.
	Tokens Tokens
	// Allocatable is the node's allocatable resources: the downward API shows them for limits that a container does not
	// have.
	Allocatable v1.ResourceList
}

// Objects has the config maps and secrets of a pod's namespace. The pod is an argument because its source decides where
// they come from. A missing object is an errdefs.ErrNotFound. Callers must not change the objects.
type Objects interface {
	ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error)
	Secret(pod *v1.Pod, name string) (*v1.Secret, error)
}

// Tokens issues service account tokens. *token.Manager implements it.
type Tokens interface {
	// Token returns a valid token that is bound to the pod.
	Token(ctx context.Context, pod *v1.Pod, projection *v1.ServiceAccountTokenProjection) (string, error)
	// Forget drops the tokens of a pod.
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

// mode is the default mode of a volume's files. 0644 is the API server's default.
func mode(set *int32) fs.FileMode {
	return itemMode(set, fs.FileMode(v1.ConfigMapVolumeSourceDefaultMode))
}

func itemMode(own *int32, otherwise fs.FileMode) fs.FileMode {
	if own == nil {
		return otherwise
	}
	return fs.FileMode(*own).Perm()
}

// keys selects the keys of an object that become files.
type keys struct {
	items    []v1.KeyToPath
	mode     fs.FileMode
	optional *bool
}

// keyFields are the supported fields of the items below a prefix.
func keyFields(prefix string) []string { return prefixed(prefix+"items[].", "key", "path", "mode") }

// prefixed puts a prefix before each name.
func prefixed(prefix string, names ...string) []string {
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names
}

func (k keys) mayMiss() bool { return k.optional != nil && *k.optional }

// pick makes files of all of an object's data, or of the items.
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

// missing returns no files if the object is optional and does not exist.
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
