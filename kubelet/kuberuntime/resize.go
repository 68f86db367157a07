package kuberuntime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// containerResize is a running container that is to get the resources of its Spec in place of Now.
type containerResize struct {
	Container model.ContainerStatus
	Spec      *v1.Container
	Now       v1.ResourceRequirements
}

// changed lists the resources in which a running container differs from what it is allocated.
func (c *computation) changed(spec *v1.Container, observed *model.ContainerStatus) []v1.ResourceName {
	if now, known := c.actuated(c.pod.UID, observed); known {
		return model.ChangedResources(spec.Resources, now)
	}
	return nil
}

// resize notes a running container whose resources have changed.
func (c *computation) resize(spec *v1.Container, observed *model.ContainerStatus) {
	if len(c.changed(spec, observed)) == 0 {
		return
	}
	now, _ := c.actuated(c.pod.UID, observed)
	c.actions.Resize = append(c.actions.Resize, containerResize{Container: *observed, Spec: spec, Now: now})
}

// resizeAll has the runtime change resources (doPodResizeAction of pkg/kubelet/kuberuntime). The pod's cgroup has room
// for the old and the new ones meanwhile. What takes less comes first.
func (m *Manager) resizeAll(ctx context.Context, pod *v1.Pod, resizes []containerResize) error {
	slices.SortStableFunc(resizes, func(a, b containerResize) int { return b.shrinks() - a.shrinks() })
	var errs []error
	for _, resize := range resizes {
		if err := m.resizeOne(ctx, pod, resize); err != nil {
			err = fmt.Errorf("resize container %s: %w", resize.Spec.Name, err)
			m.record(pod, resize.Spec.Name, true)("ResizeError", err.Error())
			errs = append(errs, err)
		}
	}
	if len(resizes) > 0 && len(errs) == 0 {
		m.record(pod, "", false)("ResizeCompleted", "The containers have the resources that the pod is allocated")
	}
	return errors.Join(errs...)
}

// shrinks is 1 for a container whose memory limit gets lower, else 0.
func (r *containerResize) shrinks() int {
	before, limited := r.Now.Limits[v1.ResourceMemory]
	after, stays := r.Spec.Resources.Limits[v1.ResourceMemory]
	if stays && (!limited || after.Cmp(before) < 0) {
		return 1
	}
	return 0
}

func (m *Manager) resizeOne(ctx context.Context, pod *v1.Pod, resize containerResize) error {
	if resize.shrinks() == 1 {
		if err := m.memoryFits(ctx, resize); err != nil {
			return err
		}
	}
	resources := m.opts.Specs.Resources(pod, resize.Spec)
	if err := m.opts.Runtime.UpdateContainerResources(ctx, resize.Container.ID, &runtimeapi.ContainerResources{Linux: resources}); err != nil {
		return errors.New(message(err))
	}
	return m.opts.Allocation.SetActuated(pod.UID, &resize.Container, resize.Spec.Resources)
}

// memoryFits refuses a memory limit below what the container uses: the kernel would kill it for that, or refuse.
func (m *Manager) memoryFits(ctx context.Context, resize containerResize) error {
	stats, err := m.opts.Runtime.ContainerStats(ctx, resize.Container.ID)
	if err != nil {
		return fmt.Errorf("memory in use: %s", message(err))
	}
	limit := resize.Spec.Resources.Limits.Memory().Value()
	if used := stats.GetMemory().GetWorkingSetBytes().GetValue(); used > uint64(limit) {
		return fmt.Errorf("the memory limit %d is below the %d bytes in use", limit, used)
	}
	return nil
}
