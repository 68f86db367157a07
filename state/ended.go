package state

import (
	"context"

	"github.com/containerd/errdefs"
)

// WaitEnded waits until a running container of a snapshot has ended, was started again, or is gone. It fails with ctx's
// error.
func (c *Cache) WaitEnded(ctx context.Context, running *Container) error {
	for {
		err := c.waitEnded(ctx, running)
		if !errdefs.IsResourceExhausted(err) { // a slow subscriber subscribes again
			return err
		}
	}
}

func (c *Cache) waitEnded(ctx context.Context, running *Container) error {
	changes := c.Subscribe()
	defer changes.Close()
	for {
		now := c.Snapshot().container(running.ID)
		if now == nil || !now.Status.Running || !now.Status.StartedAt.Equal(running.Status.StartedAt) {
			return nil
		}
		if _, err := changes.Next(ctx); err != nil {
			return err
		}
	}
}
