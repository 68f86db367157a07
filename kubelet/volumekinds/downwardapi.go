package volumekinds

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// downwardAPI has fields of the pod as files.
var downwardAPI = Kind{
	Field:     "downwardAPI",
	Honoured:  append(downwardFields(""), "defaultMode"),
	Directory: "downward-api",
	InMemory:  true,
	setDefaults: func(source *v1.VolumeSource) {
		fillPointer(&source.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
	},
	Files: func(_ context.Context, in Input, source *v1.VolumeSource) (Files, error) {
		return in.fields(source.DownwardAPI.Items, mode(source.DownwardAPI.DefaultMode))
	},
	describe: func(*v1.VolumeSource) string { return "fields of the pod" },
}

// downwardFields are the supported fields of the items below a prefix.
func downwardFields(prefix string) []string {
	return prefixed(prefix+"items[].", "path", "mode", "fieldRef.**", "resourceFieldRef.**")
}

// fields makes files of the pod's fields.
func (in Input) fields(items []v1.DownwardAPIVolumeFile, otherwise fs.FileMode) (Files, error) {
	files := Files{}
	for _, item := range items {
		value, err := in.field(&item)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", item.Path, err)
		}
		files[filepath.Clean(item.Path)] = File{Data: []byte(value), Mode: itemMode(item.Mode, otherwise)}
	}
	return files, nil
}

func (in Input) field(item *v1.DownwardAPIVolumeFile) (string, error) {
	switch {
	case item.FieldRef != nil:
		return model.PodField(in.Pod, item.FieldRef.FieldPath)
	case item.ResourceFieldRef != nil:
		container, _ := model.FindContainer(&in.Pod.Spec, item.ResourceFieldRef.ContainerName)
		if container == nil {
			return "", fmt.Errorf("resourceFieldRef.containerName: the pod has no container %q: %w",
				item.ResourceFieldRef.ContainerName, errdefs.ErrInvalidArgument)
		}
		return model.ResourceField(in.Pod, container, item.ResourceFieldRef, in.Allocatable)
	default:
		return "", fmt.Errorf("one of fieldRef and resourceFieldRef is required: %w", errdefs.ErrInvalidArgument)
	}
}
