package modeltest

import (
	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
)

// Objects has config maps and secrets by namespace/name. A nil map is empty. Concurrent reads are safe without a
// concurrent change.
type Objects struct {
	ConfigMaps map[string]*v1.ConfigMap
	Secrets    map[string]*v1.Secret
}

// ConfigMap returns a config map of the pod's namespace, or ErrNotFound.
func (o Objects) ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	if object := o.ConfigMaps[pod.Namespace+"/"+name]; object != nil {
		return object, nil
	}
	return nil, errdefs.ErrNotFound
}

// Secret is like ConfigMap for secrets.
func (o Objects) Secret(pod *v1.Pod, name string) (*v1.Secret, error) {
	if object := o.Secrets[pod.Namespace+"/"+name]; object != nil {
		return object, nil
	}
	return nil, errdefs.ErrNotFound
}
