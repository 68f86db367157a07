package objects

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kind tells config maps and secrets apart.
type kind string

const (
	configMap kind = "configmap"
	secret    kind = "secret"
)

// key is one object.
type key struct {
	kind kind
	types.NamespacedName
}

// references are all objects that the pod's volumes, environments and image pulls name.
func references(pod *v1.Pod) map[key]bool {
	found := map[key]bool{}
	add := func(of kind, name string) {
		if name != "" {
			found[key{of, types.NamespacedName{Namespace: pod.Namespace, Name: name}}] = true
		}
	}
	for i := range pod.Spec.ImagePullSecrets {
		add(secret, pod.Spec.ImagePullSecrets[i].Name)
	}
	for i := range pod.Spec.Volumes {
		inVolume(&pod.Spec.Volumes[i], add)
	}
	for i := range pod.Spec.InitContainers {
		inEnvironment(pod.Spec.InitContainers[i].EnvFrom, pod.Spec.InitContainers[i].Env, add)
	}
	for i := range pod.Spec.Containers {
		inEnvironment(pod.Spec.Containers[i].EnvFrom, pod.Spec.Containers[i].Env, add)
	}
	for i := range pod.Spec.EphemeralContainers {
		inEnvironment(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env, add)
	}
	return found
}

func inVolume(volume *v1.Volume, add func(kind, string)) {
	if volume.ConfigMap != nil {
		add(configMap, volume.ConfigMap.Name)
	}
	if volume.Secret != nil {
		add(secret, volume.Secret.SecretName)
	}
	if volume.Projected == nil {
		return
	}
	for i := range volume.Projected.Sources {
		source := &volume.Projected.Sources[i]
		if source.ConfigMap != nil {
			add(configMap, source.ConfigMap.Name)
		}
		if source.Secret != nil {
			add(secret, source.Secret.Name)
		}
	}
}

func inEnvironment(from []v1.EnvFromSource, env []v1.EnvVar, add func(kind, string)) {
	for i := range from {
		if from[i].ConfigMapRef != nil {
			add(configMap, from[i].ConfigMapRef.Name)
		}
		if from[i].SecretRef != nil {
			add(secret, from[i].SecretRef.Name)
		}
	}
	for i := range env {
		value := env[i].ValueFrom
		if value == nil {
			continue
		}
		if value.ConfigMapKeyRef != nil {
			add(configMap, value.ConfigMapKeyRef.Name)
		}
		if value.SecretKeyRef != nil {
			add(secret, value.SecretKeyRef.Name)
		}
	}
}
