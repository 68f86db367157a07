package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Objects is where config maps and secrets come from. A missing one is an errdefs.ErrNotFound. The answers are shared:
// they must not be changed.
type Objects interface {
	ConfigMap(namespace, name string) (*v1.ConfigMap, error)
	Secret(namespace, name string) (*v1.Secret, error)
}

// Options configure a Manager.
type Options struct {
	// RootDir is the kubelet's root; the volumes are in model.PodDirectory below it.
	RootDir string
	// Objects is required for pods with configMap and secret volumes.
	Objects Objects
}

// Manager makes and removes the volumes of pods. It is safe for concurrent use by different pods; calls for one pod come
// one after the other.
type Manager struct {
	opts Options
}

// New makes a manager; it touches nothing yet.
func New(opts Options) *Manager { return &Manager{opts: opts} }

// Mount makes every volume of the pod, and brings the content of those that exist up to date. It may be repeated. The
// error names the volume.
func (m *Manager) Mount(_ context.Context, _ *v1.Pod) error { return nil }

// Unmount removes what Mount made for the pod; a pod without volumes is no error. It may be repeated.
func (m *Manager) Unmount(_ context.Context, _ types.UID) error { return nil }

// Pods lists the pods that have something on disk, so that the leftovers of an earlier run can be removed.
func (m *Manager) Pods() ([]types.UID, error) { return nil, nil }
