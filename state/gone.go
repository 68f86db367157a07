package state

import (
	"context"
	"strconv"
	"time"

	"github.com/criadapter/criadapter/docker"
)

// labelExitCode is the attribute of die events with the exit code. A label of the container or its image with this name
// hides the attribute.
const labelExitCode = "exitCode"

// death is the end of a container as the die event reports it. The cache needs it only if the container is removed
// before an inspect shows the end.
type death struct {
	at       time.Time
	exitCode int
}

// noteDeath keeps the end of a known container until an inspect shows it, unless a label hides its exit code.
func (c *Cache) noteDeath(event docker.Event) {
	code, err := strconv.Atoi(event.Labels[labelExitCode])
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.snapshot.Load().container(event.ID)
	if entry != nil && entry.Status.FinishedAt.IsZero() && !entry.Meta.hidesExitCode {
		c.deaths[event.ID] = death{at: event.Time, exitCode: code}
	}
}

// noteRemoval handles the removal of a container. If only an event has reported the container's end, noteRemoval
// schedules an inspect. The inspect finds no container, and vanished publishes the end outside of the event reader.
func (c *Cache) noteRemoval(ctx context.Context, event docker.Event) {
	c.mu.Lock()
	_, died := c.deaths[event.ID]
	if died {
		l := c.looks[event.ID]
		l.missed = true
		c.looks[event.ID] = l
	}
	c.mu.Unlock()
	if died {
		c.lookLater(event.ID)
		return
	}
	c.vanished(ctx, event.ID)
}

// missing handles an id that an inspect did not find, or that a list lacks. The events of the end and of the removal
// may arrive after that answer. A container that ran is gone only if the next inspect does not find it either, a few
// milliseconds later.
func (c *Cache) missing(ctx context.Context, id string) {
	c.mu.Lock()
	entry, l := c.snapshot.Load().container(id), c.looks[id]
	again := entry != nil && entry.Status.Running && !l.missed
	if again {
		l.missed = true
		c.looks[id] = l
	}
	c.mu.Unlock()
	if again {
		c.lookLater(id)
		return
	}
	c.vanished(ctx, id)
}

// containerGone is called for a known container that the engine does not have. A container that has ended stays until
// RemoveContainer. Without this entry the kubelet may never see the end, and may run the container again. If only an
// event reported the end, containerGone publishes it. It forgets a container without a reported end, and each container
// without a pod.
func (c *Cache) containerGone(ctx context.Context, id string) {
	if entry, d := c.takeGone(id); entry != nil {
		c.publishDeath(ctx, entry, d)
	}
}

// takeGone is the part of containerGone under mu. It returns a container whose end the caller must publish.
func (c *Cache) takeGone(id string) (*Container, death) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.snapshot.Load()
	entry := now.container(id)
	d, died := c.deaths[id]
	switch {
	case entry == nil || c.exiting[id] > 0: // the exit hook runs, and the end is published after it
	case now.pod(entry.SandboxID) == nil:
		c.publish(id, c.forgetting(id))
	case !entry.Status.FinishedAt.IsZero(): // the ended container stays
	case died:
		c.exiting[id]++
		return entry, d
	default:
		c.publish(id, c.forgetting(id))
	}
	return nil, death{}
}

// publishDeath runs the exit hook, and publishes an end that only an event reports. It publishes even if ctx ends,
// because no later inspect can.
func (c *Cache) publishDeath(ctx context.Context, entry *Container, d death) {
	defer c.countExiting(entry.ID, -1)
	ended := *entry
	ended.Status.die(d)
	if c.exitHook != nil {
		c.exitHook(ctx, &ended)
	}
	c.UpdateContainer(entry.ID, func(s *ContainerStatus) {
		delete(c.deaths, entry.ID)
		s.die(d)
	})
}

// die marks a container as ended. It does nothing if the container has already ended.
func (s *ContainerStatus) die(d death) {
	if !s.FinishedAt.IsZero() {
		return
	}
	s.Running, s.Paused, s.PID, s.FinishedAt, s.ExitCode = false, false, 0, d.at, d.exitCode
	if s.StartedAt.IsZero() {
		s.StartedAt = d.at
	}
	if s.oomReported {
		*s = s.WithOOM()
	}
}

// countExiting counts the exit hooks of a container. The container is not forgotten from the start of a hook until its
// end is published.
func (c *Cache) countExiting(id string, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exiting[id] += by; c.exiting[id] == 0 {
		delete(c.exiting, id)
	}
}

// shown drops the event of an end that an inspect has shown, or that a later start has overtaken. The caller holds mu.
func (c *Cache) shown(entry *Container) {
	d, died := c.deaths[entry.ID]
	if died && (entry.ended() || entry.Status.StartedAt.After(d.at)) {
		delete(c.deaths, entry.ID)
	}
}
