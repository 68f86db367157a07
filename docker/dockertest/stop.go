package dockertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
)

// StopContainer implements docker.Containers. Like the real engine's stop, it goes on after its caller gives up.
func (e *Engine) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	leave, err := e.enter(ctx, "StopContainer", id)
	if err != nil {
		return err
	}
	stopped, err := e.beginStop(id, grace)
	if err != nil || stopped == nil {
		return leave(err)
	}
	select {
	case <-stopped:
		return leave(nil)
	case <-e.untilAway():
		return fmt.Errorf("StopContainer %s: %w: the engine went away", id, errdefs.ErrUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("StopContainer %s: %w", id, ctx.Err())
	}
}

// beginStop signals a container, and kills it after grace. The returned channel
// is closed at the container's end. It is nil if the container does not run.
func (e *Engine) beginStop(id string, grace time.Duration) (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(id)
	if err != nil {
		return nil, err
	}
	if !c.running() {
		return nil, nil
	}
	signal, err := parseSignal(cmp.Or(c.config.StopSignal, "SIGTERM"))
	if err != nil {
		return nil, err
	}
	if grace <= 0 {
		signal = "SIGKILL"
	}
	stopped, pid := c.stopped, c.pid
	e.signal(c, signal)
	if c.running() {
		e.later(grace, func() {
			if c.pid == pid {
				e.exit(c, killed)
			}
		})
	}
	return stopped, nil
}

// signal ends a container if its program ends on this signal. The caller holds the lock.
func (e *Engine) signal(c *container, name string) {
	if ends, code := c.program.answer(name); ends {
		e.exit(c, code)
	}
}

// KillContainer implements docker.Containers.
func (e *Engine) KillContainer(ctx context.Context, id, signal string) error {
	return e.call(ctx, "KillContainer", id, func() error { return e.kill(id, signal) })
}

func (e *Engine) kill(id, signal string) error {
	name, err := parseSignal(signal)
	if err != nil {
		return err
	}
	return e.withContainer(id, mustRun(func(c *container) error {
		e.signal(c, name)
		return nil
	}))
}

// SignalPID sends a signal to a process of a container or of a command, as kill(2) would. It fails with ErrNotFound if
// no process has this id.
func (e *Engine) SignalPID(pid int, signal string) error {
	name, err := parseSignal(signal)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.containers {
		if c.running() && c.pid == pid {
			e.signal(c, name)
			return nil
		}
	}
	for _, x := range e.execs {
		if x.running && x.pid == pid {
			if ends, code := x.program.answer(name); ends {
				e.endExecution(x, code)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: no process %d", errdefs.ErrNotFound, pid)
}

// RemoveContainer implements docker.Containers.
func (e *Engine) RemoveContainer(ctx context.Context, id string) error {
	return e.onAny(ctx, "RemoveContainer", id, e.remove)
}

// remove ends and removes a container. The caller holds the lock.
func (e *Engine) remove(c *container) error {
	e.exit(c, killed)
	e.settle(c)
	delete(e.containers, c.id)
	for execID, x := range e.execs {
		if x.container == c {
			delete(e.execs, execID)
		}
	}
	e.emit(docker.Event{Kind: docker.ContainerRemoved}, c)
	return nil
}

// UpdateContainer implements docker.Containers.
func (e *Engine) UpdateContainer(ctx context.Context, id string, resources api.Resources) error {
	return e.call(ctx, "UpdateContainer", id, func() error { return e.update(id, resources) })
}

// LimitNote implements docker.Containers. The engine in memory runs no program that reads notes.
func (e *Engine) LimitNote(context.Context, string, docker.NoteLimits) (docker.NoteLimits, error) {
	return docker.NoteLimits{}, nil
}

// Adjust implements docker.Containers.
func (e *Engine) Adjust(context.Context, string, ocinote.Adjustment) error {
	return errdefs.ErrNotImplemented.WithMessage("the engine in memory runs no program that reads notes")
}

// Adjustment implements docker.Containers.
func (e *Engine) Adjustment(context.Context, string) (*ocinote.Adjustment, error) { return nil, nil }

func (e *Engine) update(id string, resources api.Resources) error {
	if err := docker.CheckUpdate(resources, e.features); err != nil {
		return err
	}
	if resources.Memory != 0 && resources.Memory < 6<<20 {
		return fmt.Errorf("%w: Minimum memory limit allowed is 6MB", errdefs.ErrInvalidArgument)
	}
	return e.withContainer(id, func(c *container) error {
		merge(&c.host.Resources, resources)
		e.emit(docker.Event{Kind: docker.ContainerUpdated}, c)
		return nil
	})
}

// merge applies an update. A zero field changes nothing.
func merge(into *api.Resources, from api.Resources) {
	into.CPUShares = cmp.Or(from.CPUShares, into.CPUShares)
	into.NanoCPUs = cmp.Or(from.NanoCPUs, into.NanoCPUs)
	into.CPUPeriod = cmp.Or(from.CPUPeriod, into.CPUPeriod)
	into.CPUQuota = cmp.Or(from.CPUQuota, into.CPUQuota)
	into.CpusetCpus = cmp.Or(from.CpusetCpus, into.CpusetCpus)
	into.CpusetMems = cmp.Or(from.CpusetMems, into.CpusetMems)
	into.Memory = cmp.Or(from.Memory, into.Memory)
	into.MemorySwap = cmp.Or(from.MemorySwap, into.MemorySwap)
	into.MemoryReservation = cmp.Or(from.MemoryReservation, into.MemoryReservation)
	into.BlkioWeight = cmp.Or(from.BlkioWeight, into.BlkioWeight)
	into.PidsLimit = cmp.Or(from.PidsLimit, into.PidsLimit)
}

// InspectContainer implements docker.Containers.
func (e *Engine) InspectContainer(ctx context.Context, id string) (*api.InspectResponse, error) {
	var found *api.InspectResponse
	if err := e.onAny(ctx, "InspectContainer", id, func(c *container) error {
		found = c.inspect(e.features)
		return nil
	}); err != nil {
		return nil, err
	}
	return found, nil
}

// ListContainers implements docker.Containers.
func (e *Engine) ListContainers(ctx context.Context, labels map[string]string) ([]api.Summary, error) {
	if err := e.call(ctx, "ListContainers", "", func() error { return nil }); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []api.Summary
	for _, c := range e.containers {
		if c.matches(labels) {
			out = append(out, c.summary(now()))
		}
	}
	slices.SortFunc(out, newestFirst)
	return out, nil
}
