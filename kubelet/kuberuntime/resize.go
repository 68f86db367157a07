package kuberuntime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/model"
)

// containerResize is a running container that must get the resources of its Spec. Now has its actuated resources, if
// Known is true.
type containerResize struct {
	Container model.ContainerStatus
	Spec      *v1.Container
	Now       v1.ResourceRequirements
	Known     bool
}

// changed lists the resources whose actuated amount differs from the allocated one.
func (c *computation) changed(spec *v1.Container, observed *model.ContainerStatus) []v1.ResourceName {
	if now, known := c.actuated(c.pod.UID, spec, observed); known {
		return model.ChangedResources(spec.Resources, now)
	}
	return nil
}

// resize adds a running container to the resizes if its actuated resources differ from the allocated ones or are
// unknown. If they are unknown, the allocated ones are applied once.
func (c *computation) resize(spec *v1.Container, observed *model.ContainerStatus) {
	now, known := c.actuated(c.pod.UID, spec, observed)
	if known && len(model.ChangedResources(spec.Resources, now)) == 0 {
		return
	}
	c.actions.Resized = c.actions.Resized || known
	c.actions.Resize = append(c.actions.Resize,
		containerResize{Container: *observed, Spec: spec, Now: now, Known: known})
}

// resizeSandbox announces the pod's new resources to the runtime before any container is resized (KEP-1287). Runtimes
// that also size a virtual machine need this call. Other runtimes do not implement it.
func (m *Manager) resizeSandbox(ctx context.Context, pod *v1.Pod, id string) error {
	overhead, resources := m.opts.Specs.PodResources(pod)
	_, err := m.opts.Runtime.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: id, Overhead: overhead, Resources: resources,
	})
	if err == nil || status.Code(err) == codes.Unimplemented {
		return nil
	}
	return fmt.Errorf("resize the pod's sandbox: %s", message(err))
}

// resizeAll makes the runtime change resources, and records the result.
func (m *Manager) resizeAll(ctx context.Context, pod *v1.Pod, actions *podActions) error {
	err := m.resizePod(ctx, pod, actions)
	switch {
	case err != nil:
		m.opts.Events.WarnFailure(ctx, pod, "", "ResizeError", allocation.Message("Pod resize error", pod, err.Error()))
	case actions.Resized: // a container that was killed for the resize starts with the new resources
		m.record(pod, "", false)("ResizeCompleted", allocation.Message("Pod resize completed", pod, ""))
	}
	return err
}

// resizePod makes the runtime change resources (doPodResizeAction of pkg/kubelet/kuberuntime). Meanwhile the pod's
// cgroup has room for the old and the new resources. Memory limits are lowered before others are raised.
func (m *Manager) resizePod(ctx context.Context, pod *v1.Pod, actions *podActions) error {
	if actions.Resized {
		if err := m.resizeSandbox(ctx, pod, actions.SandboxID); err != nil {
			return err
		}
	}
	resizes := actions.Resize
	slices.SortStableFunc(resizes, func(a, b containerResize) int { return b.shrinks() - a.shrinks() })
	var errs []error
	for _, resize := range resizes {
		if err := m.resizeOne(ctx, pod, resize); err != nil {
			errs = append(errs, fmt.Errorf("resize container %s: %w", resize.Spec.Name, err))
		}
	}
	return errors.Join(errs...)
}

// shrinks returns 1 for a container whose memory limit is lowered, else 0.
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
	resources := m.opts.Specs.Resources(pod, resize.Spec, resize.Now)
	if err := m.opts.Runtime.UpdateContainerResources(ctx, resize.Container.ID,
		&runtimeapi.ContainerResources{Linux: resources}); err != nil {
		return errors.New(message(err))
	}
	return m.opts.Allocation.SetActuated(pod.UID, &resize.Container, resize.Spec.Resources)
}

// memoryFits refuses a memory limit below the container's usage: the kernel would kill the container or refuse the
// limit.
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
