package objects

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// key is one object.
type key struct {
	resource volumekinds.Resource
	types.NamespacedName
}

// references are all objects that the pod's volumes, environments and image pulls name.
func references(pod *v1.Pod) map[key]bool {
	found := map[key]bool{}
	add := func(of volumekinds.Resource, name string) {
		if name != "" {
			found[key{of, types.NamespacedName{Namespace: pod.Namespace, Name: name}}] = true
		}
	}
	for i := range pod.Spec.ImagePullSecrets {
		add(volumekinds.Secrets, pod.Spec.ImagePullSecrets[i].Name)
	}
	for i := range pod.Spec.Volumes {
		for _, ref := range volumekinds.References(&pod.Spec.Volumes[i].VolumeSource) {
			add(ref.Resource, ref.Name)
		}
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

func inEnvironment(from []v1.EnvFromSource, env []v1.EnvVar, add func(volumekinds.Resource, string)) {
	for i := range from {
		if from[i].ConfigMapRef != nil {
			add(volumekinds.ConfigMaps, from[i].ConfigMapRef.Name)
		}
		if from[i].SecretRef != nil {
			add(volumekinds.Secrets, from[i].SecretRef.Name)
		}
	}
	for i := range env {
		value := env[i].ValueFrom
		if value == nil {
			continue
		}
		if value.ConfigMapKeyRef != nil {
			add(volumekinds.ConfigMaps, value.ConfigMapKeyRef.Name)
		}
		if value.SecretKeyRef != nil {
			add(volumekinds.Secrets, value.SecretKeyRef.Name)
		}
	}
}
