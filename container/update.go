package container

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/state"
)

// Update changes the limits of a created or running container (CRI UpdateContainerResources: "If runtime fails to
// transactionally update the requested resources, an error is returned"). Fields that are not set stay as they are. It
// fails with ErrNotFound for an unknown id, ErrInvalidArgument naming the field, and ErrFailedPrecondition for a
// container that has ended. On an error the old limits are in force. But a new limit may stay where none was set
// before, because the Docker API cannot unset a limit.
func (s *Service) Update(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error {
	if request.GetLinux() == nil {
		return fmt.Errorf("linux is missing: %w", errdefs.ErrInvalidArgument)
	}
	c, unlock, err := s.lock(ctx, request.GetContainerId())
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkUpdatable(c); err != nil {
		return err
	}
	pod := s.opts.Cache.Snapshot().PodOf(c)
	limits, err := s.opts.Plugins.UpdateContainer(ctx, pod, c, request.GetLinux())
	if err != nil {
		return err
	}
	if err := s.update(ctx, c, limits); err != nil {
		return err
	}
	if now, err := s.find(c.ID); err == nil {
		s.opts.Plugins.ContainerUpdated(ctx, pod, now)
	}
	return nil
}

func checkUpdatable(c *state.Container) error {
	switch c.Status.State() {
	case runtimeapi.ContainerState_CONTAINER_CREATED, runtimeapi.ContainerState_CONTAINER_RUNNING:
		return nil
	default:
		return wrongState(c, "created or running")
	}
}

// update applies changed limits. The caller holds the container's lock.
func (s *Service) update(ctx context.Context, c *state.Container, change *runtimeapi.LinuxContainerResources) error {
	old := c.Status.Resources.GetLinux()
	wanted := mergeResources(old, change)
	// Step 1: the engine, which applies an update as a whole or not at all.
	undo, err := s.applyResources(ctx, c, wanted)
	if err != nil {
		return err
	}
	// Step 2: the record. After a crash before it the new limits apply and the record has the old ones; the kubelet
	// repeats the unanswered request.
	if err := s.recordResources(ctx, c, wanted); err != nil {
		settle, cancel := settling(ctx)
		defer cancel()
		undo()
		return errors.Join(err, s.updateEngine(settle, c.ID, old))
	}
	// Step 3: the cache.
	s.opts.Cache.UpdateContainer(c.ID, func(status *state.ContainerStatus) {
		status.Resources = &runtimeapi.ContainerResources{Linux: wanted}
	})
	return nil
}

// applyResources applies limits. On an error it restores the old ones, except that the Docker API cannot unset a limit.
// undo restores the limits that the engine has no field for.
func (s *Service) applyResources(
	ctx context.Context, c *state.Container, wanted *runtimeapi.LinuxContainerResources,
) (undo func(), err error) {
	if err := s.updateEngine(ctx, c.ID, wanted); err != nil {
		return nil, err
	}
	if undo, err = s.limit(ctx, c, "linux", wanted); err != nil {
		settle, cancel := settling(ctx)
		defer cancel()
		return nil, errors.Join(err, s.updateEngine(settle, c.ID, c.Status.Resources.GetLinux()))
	}
	return undo, nil
}

// updateEngine applies the limits that the Docker API has fields for.
func (s *Service) updateEngine(ctx context.Context, id string, wanted *runtimeapi.LinuxContainerResources) error {
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return err
	}
	resources, err := translate.Resources(wanted, features)
	if err != nil {
		return err
	}
	return s.opts.Engine.UpdateContainer(ctx, id, resources)
}

// recordResources keeps limits for the next start of criadapter.
func (s *Service) recordResources(
	ctx context.Context, c *state.Container, wanted *runtimeapi.LinuxContainerResources,
) error {
	raw, err := marshalConfig(withResources(c.Meta.Config, wanted))
	if err != nil {
		return err
	}
	return s.saveRecord(ctx, c.SandboxID, c.ID, func(kept *checkpoint.Container) { kept.Config = raw })
}

// withResources returns a copy of a configuration with other limits.
func withResources(
	config *runtimeapi.ContainerConfig, limits *runtimeapi.LinuxContainerResources,
) *runtimeapi.ContainerConfig {
	changed := proto.CloneOf(config)
	if changed.Linux == nil {
		changed.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	changed.Linux.Resources = limits
	return changed
}

// mergeResources returns a copy of old with the fields that change sets.
func mergeResources(old, change *runtimeapi.LinuxContainerResources) *runtimeapi.LinuxContainerResources {
	merged := &runtimeapi.LinuxContainerResources{}
	proto.Merge(merged, old)
	// Lists and maps are replaced, not appended to, when they are set.
	if len(change.GetHugepageLimits()) > 0 {
		merged.HugepageLimits = nil
	}
	if len(change.GetUnified()) > 0 {
		merged.Unified = nil
	}
	proto.Merge(merged, change)
	if change.GetMemorySwapLimitInBytes() == 0 {
		keepSwap(merged, old)
	}
	return merged
}

// keepSwap keeps a container's swap when only its memory changes. The swap limit counts memory plus swap.
func keepSwap(merged, old *runtimeapi.LinuxContainerResources) {
	limit, memory := old.GetMemorySwapLimitInBytes(), old.GetMemoryLimitInBytes()
	if limit > 0 && memory > 0 {
		merged.MemorySwapLimitInBytes = limit - memory + merged.GetMemoryLimitInBytes()
	}
}
