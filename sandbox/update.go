package sandbox

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/state"
)

// UpdateResources changes the limits of a running pod (CRI UpdatePodSandboxResources). A nil argument changes nothing.
// A kubelet sends this request before it resizes the pod's cgroup itself, and takes any error for a refusal. Nothing is
// written into a cgroup that a kubelet made: only the record and PodSandboxStatus change.
//
// UpdateResources fails with ErrNotFound for an unknown id and with ErrFailedPrecondition for a pod that is not ready.
// ErrInvalidArgument names the field. After an error the old limits are in force.
func (s *Service) UpdateResources(ctx context.Context, id string, overhead,
	resources *runtimeapi.LinuxContainerResources) error {
	pod, err := s.opts.Cache.Snapshot().Pod(id)
	if err != nil {
		return err
	}
	unlock, err := s.locks.Lock(ctx, pod.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if pod, err = s.opts.Cache.Snapshot().Pod(pod.ID); err != nil {
		return err
	}
	if pod.Status.State() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return fmt.Errorf("pod sandbox %s is not ready, its resources cannot be updated: %w", pod.ID,
			errdefs.ErrFailedPrecondition)
	}
	limits := translate.PodLimits{Overhead: overhead, Resources: resources}
	if overhead == nil {
		limits.Overhead = pod.Status.Overhead
	}
	if resources == nil {
		limits.Resources = pod.Status.Resources
	}
	if err := limits.Check(""); err != nil {
		return err
	}
	if err := s.opts.Plugins.UpdatePod(ctx, pod, overhead, resources); err != nil {
		return err
	}
	if err := s.putLimits(ctx, pod, limits); err != nil {
		return err
	}
	if pod, err = s.opts.Cache.Snapshot().Pod(pod.ID); err == nil {
		s.opts.Plugins.PodUpdated(ctx, pod)
	}
	return nil
}

// putLimits applies limits: to the cgroup's files, then to the record, then to the cache.
func (s *Service) putLimits(ctx context.Context, pod *state.Pod, limits translate.PodLimits) error {
	record, err := s.recordOf(ctx, pod)
	if err != nil {
		return err
	}
	undo, err := s.cgroups.limit(ctx, record, limits, "")
	if err != nil {
		return err
	}
	err = docker.IgnoreNotFound(s.opts.Store.Update(ctx, pod.ID, func(r *checkpoint.Record) (err error) {
		r.Config, err = withLimits(r.Config, limits)
		return err
	}))
	if err != nil {
		undo()
		return err
	}
	s.opts.Cache.UpdatePod(pod.ID, func(status *state.PodStatus) {
		status.Overhead, status.Resources = limits.Overhead, limits.Resources
	})
	return nil
}

// withLimits returns the configuration from a pod's record with other limits.
func withLimits(raw []byte, limits translate.PodLimits) ([]byte, error) {
	config := &runtimeapi.PodSandboxConfig{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, config); err != nil {
		return nil, fmt.Errorf("the pod's configuration in its checkpoint cannot be read: %w: %w", err,
			errdefs.ErrDataLoss)
	}
	if config.Linux == nil {
		config.Linux = &runtimeapi.LinuxPodSandboxConfig{}
	}
	config.Linux.Overhead, config.Linux.Resources = limits.Overhead, limits.Resources
	return protojson.Marshal(config)
}
