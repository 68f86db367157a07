package podconfig

import (
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Objects holds the config maps and secrets of the manifests. It is safe for concurrent use.
type Objects struct {
	changed chan struct{}

	mu         sync.RWMutex
	configMaps map[types.NamespacedName]*v1.ConfigMap
	secrets    map[types.NamespacedName]*v1.Secret
}

// NewObjects makes an empty store.
func NewObjects() *Objects { return &Objects{changed: make(chan struct{}, 1)} }

// Changed receives a value after each Replace that changed something; several changes may be one value.
func (o *Objects) Changed() <-chan struct{} { return o.changed }

// replace sets what exists.
func (o *Objects) replace(configMaps []*v1.ConfigMap, secrets []*v1.Secret) {
	newMaps, newSecrets := map[types.NamespacedName]*v1.ConfigMap{}, map[types.NamespacedName]*v1.Secret{}
	for _, object := range configMaps {
		newMaps[types.NamespacedName{Namespace: namespace(object.Namespace), Name: object.Name}] = object
	}
	for _, object := range secrets {
		newSecrets[types.NamespacedName{Namespace: namespace(object.Namespace), Name: object.Name}] = complete(object)
	}
	o.mu.Lock()
	same := equality.Semantic.DeepEqual(o.configMaps, newMaps) && equality.Semantic.DeepEqual(o.secrets, newSecrets)
	o.configMaps, o.secrets = newMaps, newSecrets
	o.mu.Unlock()
	if same {
		return
	}
	select {
	case o.changed <- struct{}{}:
	default: // the value that waits there stands for this change, too
	}
}

// complete moves stringData into data, as the API server does.
func complete(secret *v1.Secret) *v1.Secret {
	if len(secret.StringData) == 0 {
		return secret
	}
	out := secret.DeepCopy()
	if out.Data == nil {
		out.Data = map[string][]byte{}
	}
	for key, value := range out.StringData {
		out.Data[key] = []byte(value)
	}
	out.StringData = nil
	return out
}

func namespace(name string) string {
	if name == "" {
		return v1.NamespaceDefault
	}
	return name
}

// ConfigMap returns a config map of the pod's namespace, which must not be changed; errdefs.ErrNotFound if there is none.
func (o *Objects) ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if object := o.configMaps[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; object != nil {
		return object, nil
	}
	return nil, fmt.Errorf("configmap %q: %w", pod.Namespace+"/"+name, errdefs.ErrNotFound)
}

// Secret returns a secret of the pod's namespace, which must not be changed; errdefs.ErrNotFound if there is none.
func (o *Objects) Secret(pod *v1.Pod, name string) (*v1.Secret, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if object := o.secrets[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; object != nil {
		return object, nil
	}
	return nil, fmt.Errorf("secret %q: %w", pod.Namespace+"/"+name, errdefs.ErrNotFound)
}
