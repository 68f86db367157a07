package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Pod is one pod in a list, with states only.
type Pod struct {
	UID             types.UID
	Name, Namespace string
	// Sandboxes and Containers map ids to states.
	Sandboxes  map[string]runtimeapi.PodSandboxState
	Containers map[string]runtimeapi.ContainerState
}

// FullName is the pod's name and namespace as in model.FullName.
func (p *Pod) FullName() string { return p.Name + "_" + p.Namespace }

// Running says whether a container or a sandbox of the pod runs.
func (p *Pod) Running() bool {
	for _, state := range p.Sandboxes {
		if state == runtimeapi.PodSandboxState_SANDBOX_READY {
			return true
		}
	}
	for _, state := range p.Containers {
		if state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			return true
		}
	}
	return false
}

// Pods lists all pods of the owner by UID, in two calls.
func (r *Runtime) Pods(ctx context.Context) (map[types.UID]*Pod, error) {
	sandboxes, containers, err := r.list(ctx, "")
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]*Pod{}
	get := func(labels map[string]string) *Pod {
		uid := types.UID(labels[model.LabelPodUID])
		pod := pods[uid]
		if pod == nil {
			pod = &Pod{
				UID: uid, Name: labels[model.LabelPodName], Namespace: labels[model.LabelPodNamespace],
				Sandboxes: map[string]runtimeapi.PodSandboxState{}, Containers: map[string]runtimeapi.ContainerState{},
			}
			pods[uid] = pod
		}
		return pod
	}
	for _, sandbox := range sandboxes {
		get(sandbox.GetLabels()).Sandboxes[sandbox.GetId()] = sandbox.GetState()
	}
	for _, container := range containers {
		get(container.GetLabels()).Containers[container.GetId()] = container.GetState()
	}
	return pods, nil
}

// Attempts lists all pods of the owner by UID, in two calls. Sandboxes and containers have only what lists have: id,
// attempt, state and time of creation.
func (r *Runtime) Attempts(ctx context.Context) (map[types.UID]*model.PodStatus, error) {
	sandboxes, containers, err := r.list(ctx, "")
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]*model.PodStatus{}
	get := func(labels map[string]string) *model.PodStatus {
		uid := types.UID(labels[model.LabelPodUID])
		if pods[uid] == nil {
			pods[uid] = &model.PodStatus{UID: uid, Name: labels[model.LabelPodName],
				Namespace: labels[model.LabelPodNamespace]}
		}
		return pods[uid]
	}
	for _, s := range sandboxes {
		pod := get(s.GetLabels())
		pod.Sandboxes = append(pod.Sandboxes, model.SandboxStatus{
			ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(),
			Ready:     s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
			CreatedAt: at(s.GetCreatedAt()),
		})
	}
	for _, c := range containers {
		pod := get(c.GetLabels())
		pod.Containers = append(pod.Containers, model.ContainerStatus{
			ID: c.GetId(), SandboxID: c.GetPodSandboxId(), Name: c.GetMetadata().GetName(),
			Attempt: c.GetMetadata().GetAttempt(),
			State:   containerState(c.GetState()), CreatedAt: at(c.GetCreatedAt()),
		})
	}
	for _, pod := range pods {
		newestFirst(pod)
	}
	return pods, nil
}

// list returns the sandboxes and containers of one of the owner's pods. An empty UID means all of the owner's pods.
func (r *Runtime) list(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	sandboxes, err := r.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: r.selector(uid)})
	if err != nil {
		return nil, nil, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := r.ListContainers(ctx, &runtimeapi.ContainerFilter{LabelSelector: r.selector(uid)})
	if err != nil {
		return nil, nil, fmt.Errorf("list containers: %w", err)
	}
	return sandboxes, containers, nil
}

// newestFirst sorts sandboxes and containers as model.PodStatus requires. Attempts count before creation times, because
// clocks are coarse and may be set back.
func newestFirst(pod *model.PodStatus) {
	slices.SortStableFunc(pod.Sandboxes, func(a, b model.SandboxStatus) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
	slices.SortStableFunc(pod.Containers, func(a, b model.ContainerStatus) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
}

// PodStatus returns the details of one pod. An unknown pod has a status without sandboxes and containers. PodStatus
// leaves out sandboxes and containers that are removed between the list and their status.
func (r *Runtime) PodStatus(ctx context.Context, uid types.UID) (*model.PodStatus, error) {
	pod := &model.PodStatus{UID: uid, ObservedAt: time.Now()}
	sandboxes, containers, err := r.list(ctx, uid)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(r.addSandboxes(ctx, pod, sandboxes), r.addContainers(ctx, pod, containers)); err != nil {
		return nil, err
	}
	newestFirst(pod)
	return pod, nil
}

func (r *Runtime) addSandboxes(ctx context.Context, pod *model.PodStatus, listed []*runtimeapi.PodSandbox) error {
	for _, sandbox := range listed {
		answer, err := r.PodSandboxStatus(ctx, sandbox.GetId(), false)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return fmt.Errorf("status of sandbox %s: %w", sandbox.GetId(), err)
		}
		pod.Name, pod.Namespace = sandbox.GetMetadata().GetName(), sandbox.GetMetadata().GetNamespace()
		pod.Sandboxes = append(pod.Sandboxes, sandboxStatus(answer.GetStatus()))
	}
	return nil
}

func (r *Runtime) addContainers(ctx context.Context, pod *model.PodStatus, listed []*runtimeapi.Container) error {
	for _, container := range listed {
		answer, err := r.ContainerStatus(ctx, container.GetId(), false)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return fmt.Errorf("status of container %s: %w", container.GetId(), err)
		}
		labels := container.GetLabels()
		pod.Name, pod.Namespace = labels[model.LabelPodName], labels[model.LabelPodNamespace]
		pod.Containers = append(pod.Containers, containerStatus(ctx, container.GetPodSandboxId(), answer.GetStatus()))
	}
	return nil
}

// Owner is the value of model.LabelOwner.
func (r *Runtime) Owner() string { return r.owner }

// Owns says whether a sandbox or container with these labels belongs to the owner.
func (r *Runtime) Owns(labels map[string]string) bool { return labels[model.LabelOwner] == r.owner }

// selector matches the sandboxes and containers of one of the owner's pods. An empty UID means all of the owner's pods.
func (r *Runtime) selector(uid types.UID) map[string]string {
	labels := map[string]string{model.LabelOwner: r.owner}
	if uid != "" {
		labels[model.LabelPodUID] = string(uid)
	}
	return labels
}

// ImageFsInfo returns the disk usage of images and writable layers.
func (r *Runtime) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return r.Images.ImageFsInfo(ctx)
}
