package state

import (
	"context"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// relist compares the cache with the engine's list and repairs the difference. Which containers exist comes from the
// list, what they do from an inspect of each that is not trusted to be known already.
func (c *Cache) relist(ctx context.Context, trusted func(container.Summary) bool) error {
	c.dropTombstones()
	asked := c.ask()
	defer c.answered(asked)
	list, err := c.listOurs(ctx)
	if err != nil {
		return err
	}
	if err := c.adopt(ctx, list); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	through := &gate{slots: make(chan struct{}, maxRefreshes), patience: inspectPatience}
	listed := make(map[string]struct{}, len(list))
	for _, summary := range list {
		listed[summary.ID] = struct{}{}
		if trusted(summary) {
			continue
		}
		group.Go(func() error { return c.relistOne(groupCtx, summary.ID, through) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	c.vanishUnlisted(ctx, listed, asked.seq)
	c.showOrphans(ctx, listed)
	c.showLost(ctx, list)
	return nil
}

// adopt lets pods of another shim be taken over, once.
func (c *Cache) adopt(ctx context.Context, list []container.Summary) error {
	if c.adopted || c.opts.Adopt == nil {
		return nil
	}
	if err := c.opts.Adopt(ctx, list); err != nil {
		return err
	}
	c.adopted = true
	return nil
}

// relistOne passes over a container that inspect cannot find though the list showed it, and over one that cannot be
// inspected (in time) though the engine answers: a single broken container must not keep the node from being known.
// What was known of it stays, and it is tried again on its own.
func (c *Cache) relistOne(ctx context.Context, id string, through *gate) error {
	if docker.IgnoreNotFound(c.refresh(ctx, id, through)) == nil {
		return nil
	}
	if pingErr := c.opts.Engine.Ping(ctx); pingErr != nil {
		return pingErr
	}
	c.lookLater(id)
	return nil
}

// listOurs lists what carries the label that dockershim and its heirs put on
// sandboxes and containers, without what belongs to another criadapter.
func (c *Cache) listOurs(ctx context.Context) ([]container.Summary, error) {
	list, err := c.opts.Engine.ListContainers(ctx, map[string]string{translate.LabelKind: ""})
	if err != nil {
		return nil, err
	}
	return c.leaveOthers(ctx, list), nil
}

// nothing trusts no entry of a list.
func nothing(container.Summary) bool { return false }

// agrees reports whether the cache already holds what the list says. A container that has not run yet is always looked
// at: it may have run and ended with nobody told.
func (c *Cache) agrees(summary container.Summary) bool {
	running := summary.State == container.StateRunning || summary.State == container.StatePaused || summary.State == container.StateRestarting
	snapshot := c.Snapshot()
	if pod := snapshot.pod(summary.ID); pod != nil {
		return pod.Status.Running == running
	}
	entry := snapshot.container(summary.ID)
	if entry == nil || entry.Status.Unknown {
		return false
	}
	ended := !entry.Status.FinishedAt.IsZero()
	return entry.Status.Running == running && (running || ended)
}

// vanishUnlisted drops what the engine no longer has, except what was written after the list was asked for.
func (c *Cache) vanishUnlisted(ctx context.Context, listed map[string]struct{}, seq uint64) {
	for _, id := range c.unlisted(listed, seq) {
		c.vanished(ctx, id)
	}
}

func (c *Cache) unlisted(listed map[string]struct{}, seq uint64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var gone []string
	drop := func(id string) {
		if _, ok := listed[id]; !ok && c.written[id] <= seq {
			gone = append(gone, id)
		}
	}
	now := c.snapshot.Load()
	for _, pod := range now.Pods() {
		drop(pod.ID)
	}
	for _, container := range now.Containers() {
		drop(container.ID)
	}
	return gone
}
