package docker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/sirupsen/logrus"
)

// CreateContainer implements Containers.
func (c *Client) CreateContainer(ctx context.Context, spec ContainerSpec) (string, error) {
	o := op{verb: "create container", object: spec.Name}
	var created client.ContainerCreateResult
	err := c.short(ctx, o, func(ctx context.Context, s *session) (err error) {
		if err := CheckSpec(spec, s.features); err != nil {
			return err
		}
		created, err = s.api.ContainerCreate(ctx, client.ContainerCreateOptions{
			Name:             spec.Name,
			Config:           spec.Config,
			HostConfig:       spec.Host,
			NetworkingConfig: spec.Network,
		})
		return err
	})
	logWarnings(o.String(), created.Warnings)
	return created.ID, err
}

// logWarnings passes on what the engine left out of a request that it accepted
// (a limit that this kernel does not have).
func logWarnings(request string, warnings []string) {
	for _, warning := range warnings {
		logrus.WithField("request", request).Warnf("Docker Engine: %s", warning)
	}
}

// StartContainer implements Containers. The engine answers 304 for a container
// that runs, which is no error.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	return c.onContainer(ctx, "start container", id, func(ctx context.Context, s *session) error {
		_, err := s.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
}

// StopContainer implements Containers. The grace period is rounded up to whole
// seconds, the engine's unit; a negative one counts as none.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	seconds := graceSeconds(grace)
	o := op{verb: "stop container", object: id, bound: c.timeout + time.Duration(seconds)*time.Second}
	if err := checkObject("container", id); err != nil {
		return typed(ctx, o, err)
	}
	return c.do(ctx, o, func(ctx context.Context, s *session) error {
		_, err := s.api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
}

// maxGrace keeps a grace period plus the request timeout within a Duration; it
// is 68 years.
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

const (
	// removeRetryMin and removeRetryMax bound the pause between two looks at a
	// removal that someone else began.
	removeRetryMin = 10 * time.Millisecond
	removeRetryMax = 500 * time.Millisecond
)

// RemoveContainer implements Containers. A forced removal has one conflict,
// a removal that is already under way: then it waits until the container is
// gone, so that its name is free when the call succeeds.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	return c.onContainer(ctx, "remove container", id, func(ctx context.Context, s *session) error {
		underWay := false
		for pause := removeRetryMin; ; pause = min(2*pause, removeRetryMax) {
			_, err := s.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
			switch {
			case underWay && errdefs.IsNotFound(err):
				return nil
			case !errdefs.IsConflict(err):
				return err
			}
			underWay = true
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// UpdateContainer implements Containers.
func (c *Client) UpdateContainer(ctx context.Context, id string, resources container.Resources) error {
	return c.onContainer(ctx, "update container", id, func(ctx context.Context, s *session) error {
		if err := CheckUpdate(resources, s.features); err != nil {
			return err
		}
		updated, err := s.api.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{Resources: &resources})
		logWarnings("update container "+id, updated.Warnings)
		return err
	})
}

// InspectContainer implements Containers. State, Config and HostConfig of the
// result are never nil.
func (c *Client) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	var seen client.ContainerInspectResult
	err := c.onContainer(ctx, "inspect container", id, func(ctx context.Context, s *session) (err error) {
		seen, err = s.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	if got := seen.Container; got.State == nil || got.Config == nil || got.HostConfig == nil {
		return nil, fmt.Errorf("inspect container %s: %w: the engine's answer lacks State, Config or HostConfig",
			id, errdefs.ErrInternal)
	}
	return &seen.Container, nil
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
