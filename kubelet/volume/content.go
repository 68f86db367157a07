package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// content is what the volume is to hold now.
func (m *Manager) content(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (content, error) {
	switch kindOf(volume) {
	case configMap:
		source := volume.ConfigMap
		return m.configMap(pod, source.Name, keys{items: source.Items, mode: mode(source.DefaultMode), optional: source.Optional})
	case secret:
		source := volume.Secret
		return m.secret(pod, source.SecretName, keys{items: source.Items, mode: mode(source.DefaultMode), optional: source.Optional})
	case downwardAPI:
		return m.fields(pod, volume.DownwardAPI.Items, mode(volume.DownwardAPI.DefaultMode))
	default:
		return m.projected(ctx, pod, volume.Projected)
	}
}

// mode is the mode of files that do not have one of their own; 0644 is what the API server sets.
func mode(set *int32) fs.FileMode {
	if set == nil {
		return fs.FileMode(v1.ConfigMapVolumeSourceDefaultMode)
	}
	return fs.FileMode(*set).Perm()
}

// keys says which keys of an object become files, and how.
type keys struct {
	items    []v1.KeyToPath
	mode     fs.FileMode
	optional *bool
}

func (k keys) mayMiss() bool { return k.optional != nil && *k.optional }

// pick makes files of an object's data: all of it, or the items.
func (k keys) pick(object string, data map[string][]byte) (content, error) {
	files := content{}
	if len(k.items) == 0 {
		for key, value := range data {
			files[key] = file{data: value, mode: k.mode}
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
		files[filepath.Clean(item.Path)] = file{data: value, mode: itemMode(item.Mode, k.mode)}
	}
	return files, nil
}

func itemMode(own *int32, otherwise fs.FileMode) fs.FileMode {
	if own == nil {
		return otherwise
	}
	return fs.FileMode(*own).Perm()
}

func (m *Manager) configMap(pod *v1.Pod, name string, k keys) (content, error) {
	object, err := m.opts.Objects.ConfigMap(pod, name)
	if err != nil {
		return k.missing(err)
	}
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, object.BinaryData)
	return k.pick(fmt.Sprintf("configmap %q", pod.Namespace+"/"+name), data)
}

func (m *Manager) secret(pod *v1.Pod, name string, k keys) (content, error) {
	object, err := m.opts.Objects.Secret(pod, name)
	if err != nil {
		return k.missing(err)
	}
	return k.pick(fmt.Sprintf("secret %q", pod.Namespace+"/"+name), object.Data)
}

// missing is an empty volume where the object is optional and does not exist.
func (k keys) missing(err error) (content, error) {
	if k.mayMiss() && errors.Is(err, errdefs.ErrNotFound) {
		return content{}, nil
	}
	return nil, err
}

// fields makes files of the pod's own fields.
func (m *Manager) fields(pod *v1.Pod, items []v1.DownwardAPIVolumeFile, otherwise fs.FileMode) (content, error) {
	files := content{}
	for _, item := range items {
		value, err := m.field(pod, &item)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", item.Path, err)
		}
		files[filepath.Clean(item.Path)] = file{data: []byte(value), mode: itemMode(item.Mode, otherwise)}
	}
	return files, nil
}

func (m *Manager) field(pod *v1.Pod, item *v1.DownwardAPIVolumeFile) (string, error) {
	switch {
	case item.FieldRef != nil:
		return model.PodField(pod, item.FieldRef.FieldPath)
	case item.ResourceFieldRef != nil:
		container, _ := model.FindContainer(&pod.Spec, item.ResourceFieldRef.ContainerName)
		if container == nil {
			return "", fmt.Errorf("resourceFieldRef.containerName: the pod has no container %q: %w", item.ResourceFieldRef.ContainerName, errdefs.ErrInvalidArgument)
		}
		return model.ResourceField(container, item.ResourceFieldRef, m.opts.Node)
	default:
		return "", fmt.Errorf("one of fieldRef and resourceFieldRef is required: %w", errdefs.ErrInvalidArgument)
	}
}

// makeContentDirectory makes the folder of a volume with content: a config map on disk, the others in memory. It may be
// repeated.
func makeContentDirectory(path string, kind kind) error {
	if kind == configMap {
		return makeDirectory(path)
	}
	mounted, err := isMountPoint(path)
	if err != nil || mounted {
		return err
	}
	if err := makeDirectory(path); err != nil {
		return err
	}
	return mountTmpfs(path, 0)
}
