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
// by comparing Mirrors with what runs. When the API server speaks for the first time, all static pods get a Reconcile:
// before, nobody could know which of them have a mirror.

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

// takeMirrors remembers the mirrors among the API server's pods. It returns the other pods, and which static pods are
// concerned, by full name.
func (m *Mux) takeMirrors(pods []*v1.Pod) (own []*v1.Pod, concerned func(fullName string) bool) {
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
	before, first := m.mirrors, !m.seen[model.SourceAPI]
	m.mirrors = mirrors
	return own, func(name string) bool { return first || !sameMirror(before[name], mirrors[name]) }
}

func sameMirror(a, b *v1.Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}

// reconcile sends the accepted static pods that are concerned.
func (m *Mux) reconcile(ctx context.Context, concerned func(fullName string) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	update := Update{Op: Reconcile, Source: model.SourceAPI}
	for _, pods := range m.pods {
		for _, pod := range pods {
			if model.IsStatic(pod) && concerned(model.FullName(pod)) {
				update.Pods = append(update.Pods, pod.DeepCopy())
			}
		}
	}
	if len(update.Pods) == 0 {
		return nil
	}
	slices.SortFunc(update.Pods, byName)
	return m.send(ctx, update)
}
