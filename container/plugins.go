package container

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/state"
)

// Plugins follow containers, and may adjust or refuse them. *nri.Service implements Plugins.
type Plugins interface {
	// Block keeps new plugins from joining until unblock is called.
	Block() (unblock func())
	// CreateContainer asks the plugins about a container that the engine has created but not started. It returns the
	// adjustment for the container's OCI note, nil for none, and the changed limits, nil for none.
	CreateContainer(ctx context.Context, pod *state.Pod,
		c *state.Container) (*ocinote.Adjustment, *runtimeapi.LinuxContainerResources, error)
	// UndoContainer takes back CreateContainer, even if CreateContainer failed. Call it before the engine removes the
	// container.
	UndoContainer(ctx context.Context, pod *state.Pod, c *state.Container)
	ContainerCreated(ctx context.Context, pod *state.Pod, c *state.Container)
	// StartContainer fails if a plugin refuses the start.
	StartContainer(ctx context.Context, pod *state.Pod, c *state.Container) error
	ContainerStarted(ctx context.Context, pod *state.Pod, c *state.Container)
	// UpdateContainer returns the wanted limits with the changes of the plugins.
	UpdateContainer(ctx context.Context, pod *state.Pod, c *state.Container,
		wanted *runtimeapi.LinuxContainerResources) (*runtimeapi.LinuxContainerResources, error)
	ContainerUpdated(ctx context.Context, pod *state.Pod, c *state.Container)
	RemoveContainer(ctx context.Context, pod *state.Pod, c *state.Container)
}

// withoutPlugins are the Plugins of a node that has none.
type withoutPlugins struct{}

func (withoutPlugins) Block() func() { return func() {} }

func (withoutPlugins) CreateContainer(
	context.Context, *state.Pod, *state.Container,
) (*ocinote.Adjustment, *runtimeapi.LinuxContainerResources, error) {
	return nil, nil, nil
}

func (withoutPlugins) UndoContainer(context.Context, *state.Pod, *state.Container)        {}
func (withoutPlugins) ContainerCreated(context.Context, *state.Pod, *state.Container)     {}
func (withoutPlugins) StartContainer(context.Context, *state.Pod, *state.Container) error { return nil }
func (withoutPlugins) ContainerStarted(context.Context, *state.Pod, *state.Container)     {}

func (withoutPlugins) UpdateContainer(
	_ context.Context, _ *state.Pod, _ *state.Container, wanted *runtimeapi.LinuxContainerResources,
) (*runtimeapi.LinuxContainerResources, error) {
	return wanted, nil
}

func (withoutPlugins) ContainerUpdated(context.Context, *state.Pod, *state.Container) {}
func (withoutPlugins) RemoveContainer(context.Context, *state.Pod, *state.Container)  {}

// adjust lets plugins adjust a new container that the engine has. The limits that the plugins choose go into the
// record.
func (s *Service) adjust(ctx context.Context, d *draft, id string) error {
	c := d.container(id)
	note, limits, err := s.opts.Plugins.CreateContainer(ctx, d.pod, c)
	if err != nil {
		return err
	}
	if note != nil {
		if err := s.opts.Engine.Adjust(ctx, id, *note); err != nil {
			return err
		}
	}
	if limits == nil {
		return nil
	}
	had := d.request.GetLinux().GetResources()
	wanted := mergeResources(had, completed(limits, had))
	if _, err := s.applyResources(ctx, c, wanted); err != nil {
		return fmt.Errorf("limits of NRI plugins: %w", err)
	}
	d.config, err = marshalConfig(withResources(d.request, wanted))
	return err
}

// container describes to plugins the container that the engine has made from the draft.
func (d *draft) container(id string) *state.Container {
	return &state.Container{ID: id, SandboxID: d.pod.ID,
		Meta: state.ContainerMeta{Name: d.spec.Name, Config: d.request, ImageID: d.imageID, ImageRef: d.imageRef}}
}

// tellUndone tells plugins that a container is undone, on a context of its own.
func (s *Service) tellUndone(ctx context.Context, pod *state.Pod, c *state.Container) {
	settle, cancel := settling(ctx)
	defer cancel()
	s.opts.Plugins.UndoContainer(settle, pod, c)
}

// latest returns a container as the cache has it now: plugins get its state.
func (s *Service) latest(c *state.Container) *state.Container {
	if now, err := s.find(c.ID); err == nil {
		return now
	}
	return c
}

// Limit changes limits of a container on a plugin's request, without asking the plugins again. It fails as Update does.
func (s *Service) Limit(ctx context.Context, id string, limits *runtimeapi.LinuxContainerResources) error {
	c, unlock, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkUpdatable(c); err != nil {
		return err
	}
	return s.update(ctx, c, completed(limits, c.Status.Resources.GetLinux()))
}

// completed returns a plugin's limits with the unified keys and huge page sizes that only old has. A plugin names only
// what it changes, but an update of CRI names all of them.
func completed(limits, old *runtimeapi.LinuxContainerResources) *runtimeapi.LinuxContainerResources {
	whole := proto.CloneOf(limits)
	if len(limits.GetUnified()) > 0 {
		whole.Unified = maps.Clone(old.GetUnified())
		if whole.Unified == nil {
			whole.Unified = map[string]string{}
		}
		maps.Copy(whole.Unified, limits.GetUnified())
	}
	if len(limits.GetHugepageLimits()) > 0 {
		for _, limit := range old.GetHugepageLimits() {
			if !slices.ContainsFunc(whole.HugepageLimits, func(other *runtimeapi.HugepageLimit) bool {
				return other.GetPageSize() == limit.GetPageSize()
			}) {
				whole.HugepageLimits = append(whole.HugepageLimits, limit)
			}
		}
	}
	return whole
}
