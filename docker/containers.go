package docker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/step"
)

// CreateContainer implements Containers.
func (c *Client) CreateContainer(ctx context.Context, spec ContainerSpec) (string, error) {
	defer step.At("engine: create container")()
	o := op{verb: "create container", object: spec.Name}
	var created client.ContainerCreateResult
	err := c.short(ctx, o, func(ctx context.Context, s *session) (err error) {
		if err := CheckSpec(spec, s.features); err != nil {
			return err
		}
		var note ocinote.Note
		if spec.Note != nil {
			note = *spec.Note
			if err := s.setRuntime(&note, spec); err != nil {
				return fmt.Errorf("%w: %w", errdefs.ErrFailedPrecondition, err)
			}
			spec.Host = withRuntime(spec.Host, s.features.OCIRuntime.Name)
		}
		created, err = s.create(ctx, client.ContainerCreateOptions{
			Name:             spec.Name,
			Config:           spec.Config,
			HostConfig:       spec.Host,
			NetworkingConfig: spec.Network,
		})
		if err != nil || spec.Note == nil {
			return err
		}
		if spec.NetworkPath != nil {
			note.Namespaces = map[string]string{"network": spec.NetworkPath(created.ID)}
		}
		return s.saveNote(ctx, created.ID, note)
	})
	logWarnings(ctx, o.verb, created.ID, created.Warnings)
	return created.ID, err
}

// create makes a container, and names the engine's own platform in the request. Without a platform, an engine with the
// containerd image store reads the image twice, only to warn of a foreign platform. With a platform, the engine finds
// only an image of exactly this platform. If there is none, create repeats the request without a platform.
func (s *session) create(
	ctx context.Context, options client.ContainerCreateOptions,
) (client.ContainerCreateResult, error) {
	if !s.features.ContainerdImageStore {
		return s.api.ContainerCreate(ctx, options)
	}
	native := options
	native.Platform = &ocispec.Platform{OS: s.features.OS, Architecture: s.features.Arch}
	created, err := s.api.ContainerCreate(ctx, native)
	if errdefs.IsNotFound(err) {
		return s.api.ContainerCreate(ctx, options)
	}
	return created, err
}

// logWarnings logs the engine's warnings about an accepted request, such as a limit that this kernel does not have.
func logWarnings(ctx context.Context, call, containerID string, warnings []string) {
	for _, warning := range warnings {
		log.G(ctx).WithFields(log.Fields{"call": call, "containerID": containerID, "warning": warning}).
			Warn("warning of Docker Engine")
	}
}

// StopContainer implements Containers. The grace period is rounded up to whole seconds, the engine's unit. A negative
// grace period counts as zero.
//
// The stop outlives its caller: if the client of a stop leaves, Docker Engine 23.0 kills the container at once.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	defer step.At("engine: stop container")()
	seconds := graceSeconds(grace)
	grace = time.Duration(seconds) * time.Second
	o := op{verb: "stop container", kind: aContainer, object: id, bound: c.timeout + grace, grace: grace}
	return c.lasting(ctx, o, func(ctx context.Context, s *session) error {
		_, err := s.api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
}

// maxGrace keeps a grace period plus the request timeout within a Duration. It is 68 years.
const maxGrace = math.MaxInt32

func graceSeconds(grace time.Duration) int {
	if grace <= 0 {
		return 0
	}
	seconds := int64(grace / time.Second)
	if grace%time.Second != 0 {
		seconds++
	}
	return int(min(seconds, maxGrace))
}

// KillContainer implements Containers.
func (c *Client) KillContainer(ctx context.Context, id, signal string) error {
	return c.onContainer(ctx, "kill container", id, func(ctx context.Context, s *session) error {
		_, err := s.api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: signal})
		return err
	})
}

// removalBackoff paces the retries of a removal that another client began.
var removalBackoff = wait.Backoff{
	Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 500 * time.Millisecond,
}

// RemoveContainer implements Containers. A forced removal conflicts only with another removal that is under way.
// RemoveContainer then waits until the container is gone, so that its name is free when the call succeeds. If a removal
// fails but the container is gone, RemoveContainer succeeds, because no caller would repeat the removal.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	defer step.At("engine: remove container")()
	return c.onContainer(ctx, "remove container", id, func(ctx context.Context, s *session) (err error) {
		defer func() {
			if err == nil || errdefs.IsNotFound(err) {
				s.removeNote(ctx, id)
			}
		}()
		underWay := false
		err = removalBackoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
			_, err = s.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
			switch {
			case underWay && errdefs.IsNotFound(err):
				return true, nil
			case !errdefs.IsConflict(err):
				return true, err
			}
			underWay = true
			return false, nil
		})
		if err != nil && !errdefs.IsNotFound(err) && s.gone(ctx, id) {
			return nil
		}
		return err
	})
}

// gone reports whether the engine answers that there is no such container.
func (s *session) gone(ctx context.Context, id string) bool {
	_, err := s.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	return errdefs.IsNotFound(err)
}

// UpdateContainer implements Containers.
func (c *Client) UpdateContainer(ctx context.Context, id string, resources container.Resources) error {
	defer step.At("engine: update container")()
	return c.onContainer(ctx, "update container", id, func(ctx context.Context, s *session) error {
		if err := CheckUpdate(resources, s.features); err != nil {
			return err
		}
		updated, err := s.api.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{Resources: &resources})
		logWarnings(ctx, "update container", id, updated.Warnings)
		return err
	})
}

// InspectContainer implements Containers. State, Config and HostConfig of the
// result are never nil.
func (c *Client) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	var result client.ContainerInspectResult
	err := c.onContainer(ctx, "inspect container", id, func(ctx context.Context, s *session) (err error) {
		result, err = s.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	if got := result.Container; got.State == nil || got.Config == nil || got.HostConfig == nil {
		return nil, fmt.Errorf("inspect container %s: %w: the engine's answer lacks State, Config or HostConfig",
			id, errdefs.ErrInternal)
	}
	return &result.Container, nil
}

// ListContainers implements Containers.
func (c *Client) ListContainers(ctx context.Context, labels map[string]string) ([]container.Summary, error) {
	filters := make(client.Filters)
	for key, value := range labels {
		if value != "" {
			key += "=" + value
		}
		filters.Add("label", key)
	}
	var list client.ContainerListResult
	err := c.short(ctx, op{verb: "list containers"}, func(ctx context.Context, s *session) (err error) {
		list, err = s.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		return err
	})
	return list.Items, err
}
