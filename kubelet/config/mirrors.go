package config

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// A mirror pod is the API server's picture of a static pod. It is not a pod to run: it never gets into an Update, it
// takes no name away from the static pod, and it is not checkpointed. When one comes, changes or goes, the static pod of
// its name gets a Reconcile, so that its worker sees to the mirror and its status. Mirrors without a static pod are found
// by comparing Mirrors with what runs.

// Mirror is the mirror pod that the API server has of a static pod, nil for none. It must not be changed.
func (m *Mux) Mirror(static *v1.Pod) *v1.Pod {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	return m.mirrors[model.FullName(static)]
}

// Mirrors are all mirror pods of this node at the API server, by name. They must not be changed.
func (m *Mux) Mirrors() []*v1.Pod {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	var mirrors []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(m.mirrors)) {
		mirrors = append(mirrors, m.mirrors[name])
	}
	return mirrors
}

// takeMirrors remembers the mirrors among the API server's pods. It returns the other pods, and the full names whose
// mirror changed.
func (m *Mux) takeMirrors(pods []*v1.Pod) (own []*v1.Pod, changed []string) {
	mirrors := map[string]*v1.Pod{}
	for _, pod := range pods {
		if model.IsMirror(pod) {
			mirrors[model.FullName(pod)] = pod
		} else {
			own = append(own, pod)
		}
	}
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	for name, mirror := range mirrors {
		if old := m.mirrors[name]; old == nil || old.UID != mirror.UID || old.ResourceVersion != mirror.ResourceVersion {
			changed = append(changed, name)
		}
	}
	for name := range m.mirrors {
		if mirrors[name] == nil {
			changed = append(changed, name)
		}
	}
	m.mirrors = mirrors
	slices.Sort(changed)
	return own, changed
}

// reconcile sends the accepted static pods of these full names.
func (m *Mux) reconcile(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	update := Update{Op: Reconcile, Source: model.SourceAPI}
	for _, name := range names {
		for _, pods := range m.pods {
			for _, pod := range pods {
				if model.IsStatic(pod) && model.FullName(pod) == name {
					update.Pods = append(update.Pods, pod.DeepCopy())
				}
			}
		}
	}
	if len(update.Pods) == 0 {
		return nil
	}
	return m.send(ctx, update)
}
