package volumekinds

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Object identifies a config map or a secret.
type Object struct {
	Resource Resource
	types.NamespacedName
}

// String names the object in messages.
func (o Object) String() string { return fmt.Sprintf("%s %q", o.Resource, o.NamespacedName) }

// ObjectsOf returns the objects that the pod's volumes, environment variables and image pulls name.
func ObjectsOf(pod *v1.Pod) map[Object]bool {
	found := map[Object]bool{}
	add := func(of Resource, name string) {
		if name != "" {
			found[Object{of, types.NamespacedName{Namespace: pod.Namespace, Name: name}}] = true
		}
	}
	for i := range pod.Spec.ImagePullSecrets {
		add(Secrets, pod.Spec.ImagePullSecrets[i].Name)
	}
	for i := range pod.Spec.Volumes {
		for _, ref := range shownBy(&pod.Spec.Volumes[i].VolumeSource) {
			add(ref.Resource, ref.Name)
		}
	}
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) { inEnvironment(c.EnvFrom, c.Env, add) })
	return found
}

func inEnvironment(from []v1.EnvFromSource, env []v1.EnvVar, add func(Resource, string)) {
	for i := range from {
		if from[i].ConfigMapRef != nil {
			add(ConfigMaps, from[i].ConfigMapRef.Name)
		}
		if from[i].SecretRef != nil {
			add(Secrets, from[i].SecretRef.Name)
		}
	}
	for i := range env {
		value := env[i].ValueFrom
		if value == nil {
			continue
		}
		if value.ConfigMapKeyRef != nil {
			add(ConfigMaps, value.ConfigMapKeyRef.Name)
		}
		if value.SecretKeyRef != nil {
			add(Secrets, value.SecretKeyRef.Name)
		}
	}
}

// Changes collects changed objects for one reader. It is safe for concurrent use. Make one with NewChanges.
type Changes struct {
	mu      sync.Mutex
	waiting chan map[Object]bool // has the unread objects; only Add sends
}

// NewChanges makes empty Changes.
func NewChanges() *Changes { return &Changes{waiting: make(chan map[Object]bool, 1)} }

// Add adds an object. It does not block.
func (c *Changes) Add(changed Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[Object]bool{}
	select {
	case all = <-c.waiting:
	default:
	}
	all[changed] = true
	c.waiting <- all
}

// Wait returns a channel that delivers all objects added since the last receive.
func (c *Changes) Wait() <-chan map[Object]bool { return c.waiting }
