package state

import (
	"context"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// relist compares the cache with the engine's list and repairs the difference. It inspects each listed container for
// which trusted is false, unless the container's record has its end.
func (c *Cache) relist(ctx context.Context, trusted func(container.Summary) bool) error {
	if err := c.adopt(ctx); err != nil {
		return err
	}
	c.dropTombstones()
	asked := c.ask()
	defer c.answered(asked)
	list, err := c.listOurs(ctx)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	through := &gate{slots: make(chan struct{}, maxRefreshes)}
	listed := make(map[string]struct{}, len(list))
	for _, summary := range list {
		listed[summary.ID] = struct{}{}
		if trusted(summary) {
			continue
		}
		group.Go(func() error {
			if c.mergeEnd(groupCtx, summary, asked) {
				return nil
			}
			return c.relistOne(groupCtx, summary.ID, through)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, id := range c.unlisted(listed, asked.seq) {
		c.missing(ctx, id)
	}
	select {
	case <-c.synced: // after the first relist, vanished keeps pods and ends that only have a record
	default:
		c.showOrphans(ctx, listed)
		c.showUninspected(ctx, list)
		c.showLost(ctx, list)
	}
	return nil
}

// adopt calls Options.Adopt until it has succeeded once. relist requests another list afterwards, because handle
// applies no container event before Adopt succeeds.
func (c *Cache) adopt(ctx context.Context) error {
	if c.adopted.Load() {
		return nil
	}
	list, err := c.listOurs(ctx)
	if err != nil {
		return err
	}
	if err := c.opts.Adopt(ctx, list); err != nil {
		return err
	}
	c.adopted.Store(true)
	return nil
}

// relistOne refreshes a listed container. It ignores a container that is gone meanwhile. If the engine answers a ping,
// but fails to inspect the container, relistOne schedules another try and keeps the entry. So one broken container does
// not fail the relist.
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

// listOurs lists the containers with the label of dockershim and its successors, except containers of other
// criadapters.
func (c *Cache) listOurs(ctx context.Context) ([]container.Summary, error) {
	list, err := c.opts.Engine.ListContainers(ctx, map[string]string{translate.LabelKind: ""})
	if err != nil {
		return nil, err
	}
	return c.leaveOthers(ctx, list), nil
}

// trustNothing makes a relist trust no entry, so that it checks every listed container.
func trustNothing(container.Summary) bool { return false }

// agrees reports whether the cache agrees with the list about a container. It is false for a container that the cache
// holds as created, because it may have run and ended without an event.
func (c *Cache) agrees(summary container.Summary) bool {
	running := summary.State == container.StateRunning || summary.State == container.StatePaused
	snapshot := c.Snapshot()
	if pod := snapshot.pod(summary.ID); pod != nil {
		return pod.Status.Running == running
	}
	running = running || summary.State == container.StateRestarting
	entry := snapshot.container(summary.ID)
	if entry == nil || entry.Status.Unknown {
		return false
	}
	ended := !entry.Status.FinishedAt.IsZero()
	return entry.Status.Running == running && (running || ended)
}

// unlisted returns the entries that the engine's list lacks, except those written after the list was requested.
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
