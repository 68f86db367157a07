package podconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// Objects has the objects of the manifests. It is safe for concurrent use.
type Objects struct {
	changes *volumekinds.Changes

	mu         sync.RWMutex
	configMaps map[types.NamespacedName]*v1.ConfigMap
	secrets    map[types.NamespacedName]*v1.Secret
	claims     map[types.NamespacedName]*v1.PersistentVolumeClaim
	volumes    map[string]*v1.PersistentVolume
	// read says that the manifests were read.
	read bool
}

// NewObjects makes an empty store.
func NewObjects() *Objects { return &Objects{changes: volumekinds.NewChanges()} }

// Changed returns a channel that delivers new, changed and removed objects.
func (o *Objects) Changed() <-chan map[volumekinds.Object]bool { return o.changes.Wait() }

// replace sets all objects. Of objects with the same name the last one counts.
func (o *Objects) replace(objects manifest.Objects) {
	newMaps, newSecrets := map[types.NamespacedName]*v1.ConfigMap{}, map[types.NamespacedName]*v1.Secret{}
	for _, object := range objects.ConfigMaps {
		newMaps[types.NamespacedName{Namespace: namespace(object.Namespace), Name: object.Name}] = object
	}
	for _, object := range objects.Secrets {
		newSecrets[types.NamespacedName{Namespace: namespace(object.Namespace), Name: object.Name}] = complete(object)
	}
	claims, volumes := map[types.NamespacedName]*v1.PersistentVolumeClaim{}, map[string]*v1.PersistentVolume{}
	for _, claim := range objects.Claims {
		claims[types.NamespacedName{Namespace: namespace(claim.Namespace), Name: claim.Name}] = claim
	}
	for _, volume := range objects.PersistentVolumes {
		volumes[volume.Name] = volume
	}
	o.mu.Lock()
	oldMaps, oldSecrets := o.configMaps, o.secrets
	o.configMaps, o.secrets, o.claims, o.volumes, o.read = newMaps, newSecrets, claims, volumes, true
	o.mu.Unlock()
	addChanges(o.changes, volumekinds.ConfigMaps, oldMaps, newMaps)
	addChanges(o.changes, volumekinds.Secrets, oldSecrets, newSecrets)
}

// addChanges adds the changed objects of one resource.
func addChanges[T any](
	changes *volumekinds.Changes, of volumekinds.Resource, before, after map[types.NamespacedName]T,
) {
	for name, old := range before {
		if now, ok := after[name]; !ok || !equality.Semantic.DeepEqual(old, now) {
			changes.Add(volumekinds.Object{Resource: of, NamespacedName: name})
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			changes.Add(volumekinds.Object{Resource: of, NamespacedName: name})
		}
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

func namespace(name string) string { return cmp.Or(name, v1.NamespaceDefault) }

// ConfigMap returns a config map of the pod's namespace, or errdefs.ErrNotFound. It must not be changed.
func (o *Objects) ConfigMap(pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if object := o.configMaps[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; object != nil {
		return object, nil
	}
	return nil, fmt.Errorf("configmap %q: %w", pod.Namespace+"/"+name, errdefs.ErrNotFound)
}

// Secret returns a secret of the pod's namespace, or errdefs.ErrNotFound. It must not be changed.
func (o *Objects) Secret(pod *v1.Pod, name string) (*v1.Secret, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if object := o.secrets[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; object != nil {
		return object, nil
	}
	return nil, fmt.Errorf("secret %q: %w", pod.Namespace+"/"+name, errdefs.ErrNotFound)
}

// Claim implements volumekinds.Claims. A claim is bound to the volume that it names, or else to the volume whose
// claimRef names the claim. Until the manifests were read, Claim returns an errdefs.ErrUnavailable: a claim must not be
// bound before its volume is known.
func (o *Objects) Claim(claimNamespace, name string) (*v1.PersistentVolume, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if !o.read {
		return nil, fmt.Errorf("claim %q: the manifests were not read yet: %w", name, errdefs.ErrUnavailable)
	}
	if claim := o.claims[types.NamespacedName{Namespace: claimNamespace, Name: name}]; claim != nil &&
		claim.Spec.VolumeName != "" {
		volume := o.volumes[claim.Spec.VolumeName]
		if volume == nil {
			return nil, fmt.Errorf("persistent volume %q of claim %q: %w", claim.Spec.VolumeName,
				claimNamespace+"/"+name, errdefs.ErrNotFound)
		}
		return volume, nil
	}
	for _, volume := range slices.Sorted(maps.Keys(o.volumes)) {
		ref := o.volumes[volume].Spec.ClaimRef
		if ref != nil && ref.Name == name && namespace(ref.Namespace) == claimNamespace {
			return o.volumes[volume], nil
		}
	}
	return nil, nil
}
