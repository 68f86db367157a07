// Package grants keeps the exclusive devices and CPUs of containers on the disk. After a restart of the kubelet,
// containers keep their grants.
package grants

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/jsonfile"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Grants has one value for each container with a grant, by pod and container. It is not safe for concurrent use.
type Grants[T any] struct {
	path string
	pods map[types.UID]map[string]T
}

// Open reads the grants; a missing file has no grants.
func Open[T any](path string) (*Grants[T], error) {
	g := &Grants[T]{path: path, pods: map[types.UID]map[string]T{}}
	_, err := jsonfile.Read(path, &g.pods)
	return g, err
}

// Get returns a container's grant.
func (g *Grants[T]) Get(uid types.UID, container string) (T, bool) {
	value, ok := g.pods[uid][container]
	return value, ok
}

// Set writes a container's grant. After an error the container keeps its earlier grant.
func (g *Grants[T]) Set(uid types.UID, container string, value T) error {
	pods := maps.Clone(g.pods)
	pods[uid] = maps.Clone(pods[uid])
	if pods[uid] == nil {
		pods[uid] = map[string]T{}
	}
	pods[uid][container] = value
	return g.replace(pods)
}

// Keep drops the grants of pods that do not exist. It returns whether it dropped any. After an error, all grants stay.
func (g *Grants[T]) Keep(exists func(types.UID) bool) (dropped bool, err error) {
	pods := maps.Clone(g.pods)
	maps.DeleteFunc(pods, func(uid types.UID, _ map[string]T) bool { return !exists(uid) })
	if len(pods) == len(g.pods) {
		return false, nil
	}
	err = g.replace(pods)
	return err == nil, err
}

// replace writes the file before the grants change.
func (g *Grants[T]) replace(pods map[types.UID]map[string]T) error {
	if err := jsonfile.Write(g.path, pods); err != nil {
		return err
	}
	g.pods = pods
	return nil
}

// Others returns the grants that a container must not use, and the reusable ones. Grants of finished pods are in
// neither list. The container's own grant and the grants of the pod's init containers are reusable: an init container
// ends before the next container starts. Sidecars run on, so their grants are taken.
func (g *Grants[T]) Others(pod *v1.Pod, container string, finished func(types.UID) bool) (taken, reusable []T) {
	for uid, containers := range g.pods {
		if uid != pod.UID && finished(uid) {
			continue
		}
		for name, value := range containers {
			if uid == pod.UID && (name == container || endsBefore(pod, name)) {
				reusable = append(reusable, value)
			} else {
				taken = append(taken, value)
			}
		}
	}
	return taken, reusable
}

// endsBefore says whether a container of the pod is an init container that ends.
func endsBefore(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == name && !model.IsSidecar(&c)
	})
}
