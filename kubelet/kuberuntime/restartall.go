package kuberuntime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// restartAll kills and removes all containers of a pod except ephemeral ones, so that they start from the beginning in
// the same sandbox. It returns the pod's new status. Source is the container whose exit triggered the restart. While
// source is in back-off, restartAll does nothing and returns nil.
//
// Only the runtime stores the state of a restart (KEP-5532). Source is removed last, so an interrupted restart is
// repeated.
func (m *Manager) restartAll(
	ctx context.Context, pod *v1.Pod, status *model.PodStatus, source containerStart, result *Result,
) (*model.PodStatus, error) {
	if m.backsOff(pod, source, result) {
		return nil, nil
	}
	var kills []containerKill
	var others, last []model.ContainerStatus
	for _, container := range status.Containers {
		spec, kind := model.FindContainer(&pod.Spec, container.Name)
		if spec != nil && kind == model.Ephemeral {
			continue
		}
		if container.State == model.StateRunning || container.State == model.StateUnknown {
			message := stopping(container.Name,
				"all containers of the pod start again, because "+source.Spec.Name+" ended")
			kills = append(kills, containerKill{Container: container, Spec: spec, Message: message})
		}
		if container.Name == source.Spec.Name {
			last = append(last, container)
		} else {
			others = append(others, container)
		}
	}
	// No preStop hook runs, and each container gets only minimalGrace: the pod is reset, not ended.
	atOnce := KillOptions{Grace: new(int64)}
	if err := each(kills, func(k containerKill) error { return m.killOne(ctx, pod, k, atOnce, nil) }); err != nil {
		return nil, err
	}
	slices.Reverse(last) // the newest attempt, which triggered the restart, is removed last
	if err := m.remove(ctx, status, append(others, last...)); err != nil {
		return nil, err
	}
	return m.opts.Runtime.PodStatus(ctx, pod.UID)
}

// Discard removes the containers and sandboxes of a pod that has ended, so that a pod with the same UID begins anew.
func (m *Manager) Discard(ctx context.Context, status *model.PodStatus) error {
	if err := m.remove(ctx, status, status.Containers); err != nil {
		return err
	}
	for _, sandbox := range status.Sandboxes {
		if err := removeSandbox(ctx, m.opts.Runtime, sandbox.ID); err != nil {
			return err
		}
	}
	return nil
}

// remove removes containers of a pod in the given order.
func (m *Manager) remove(ctx context.Context, status *model.PodStatus, containers []model.ContainerStatus) error {
	for _, container := range containers {
		if err := m.opts.Runtime.RemoveContainer(ctx, container.ID); err != nil {
			return fmt.Errorf("remove container %s: %s", container.Name, message(err))
		}
		if status.Container(container.Name).ID == container.ID {
			// The log stays for users. Its name has the number of the attempt, for attemptAfterLogs.
			if err := keepLog(container.LogPath); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepLog removes all logs of a container except the ones of one attempt.
func keepLog(path string) error {
	if path == "" {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), filepath.Base(path)) {
			errs = append(errs, os.Remove(filepath.Join(filepath.Dir(path), entry.Name())))
		}
	}
	return errors.Join(errs...)
}
