package dockertest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
)

// criuImage is a file that CRIU leaves in each checkpoint.
const criuImage = "inventory.img"

// PauseContainer implements docker.Checkpoints.
func (e *Engine) PauseContainer(ctx context.Context, id string) error {
	return e.onRunning(ctx, "PauseContainer", id, func(c *container) error {
		if c.paused {
			return fmt.Errorf("%w: Container %s is already paused", errdefs.ErrConflict, c.id)
		}
		c.paused = true
		return nil
	})
}

// UnpauseContainer implements docker.Checkpoints.
func (e *Engine) UnpauseContainer(ctx context.Context, id string) error {
	return e.onRunning(ctx, "UnpauseContainer", id, func(c *container) error {
		if !c.paused {
			return fmt.Errorf("%w: Container %s is not paused", errdefs.ErrInternal, c.id)
		}
		c.paused = false
		return nil
	})
}

// CreateCheckpoint implements docker.Checkpoints. The checkpoint is a file with the container's id.
func (e *Engine) CreateCheckpoint(ctx context.Context, id, dir, name string) error {
	return e.onRunning(ctx, "CreateCheckpoint", id, func(c *container) error {
		if e.features.NoCheckpoint != "" {
			return fmt.Errorf("%w: page not found", errdefs.ErrNotFound)
		}
		if c.paused && e.flavor == Docker20 {
			return fmt.Errorf("%w: Cannot checkpoint container %s: container not running", errdefs.ErrInternal, c.id)
		}
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name, criuImage), []byte(c.id), 0o600)
	})
}

// RestoreContainer implements docker.Checkpoints.
func (e *Engine) RestoreContainer(ctx context.Context, id, name string) error {
	return e.call(ctx, "RestoreContainer", id, func() error {
		path := filepath.Join(e.features.Root, "containers", id, "checkpoints", name, criuImage)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w: checkpoint %s does not exist for container %s", errdefs.ErrNotFound, name, id)
		}
		return e.withContainer(id, e.start)
	})
}

// ListChanges implements docker.Checkpoints. SetChanges sets the changes.
func (e *Engine) ListChanges(ctx context.Context, id string) (changes []api.FilesystemChange, err error) {
	err = e.onAny(ctx, "ListChanges", id, func(c *container) error {
		changes = c.changes
		return nil
	})
	return changes, err
}

// SetChanges sets a container's changes to its image's files.
func (e *Engine) SetChanges(id string, changes ...api.FilesystemChange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, err := e.find(id); err == nil {
		c.changes = changes
	}
}

// CopyToContainer implements docker.Checkpoints. Copied returns the archive.
func (e *Engine) CopyToContainer(ctx context.Context, id, dir string, archive io.Reader) error {
	content, err := io.ReadAll(archive)
	if err != nil {
		return err
	}
	return e.onAny(ctx, "CopyToContainer", id, func(c *container) error {
		if c.host.ReadonlyRootfs && !slices.Contains(c.image.Volumes, dir) {
			return fmt.Errorf("%w: container rootfs is marked read-only", errdefs.ErrInvalidArgument)
		}
		for _, volume := range c.volumes {
			if volume.Destination == dir {
				if err := os.MkdirAll(volume.Source, 0o755); err != nil {
					return err
				}
			}
		}
		if c.copied == nil {
			c.copied = make(map[string][]byte)
		}
		c.copied[dir] = content
		return nil
	})
}

// Copied returns the archive that was last copied to a directory of a container.
func (e *Engine) Copied(id, dir string) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, err := e.find(id); err == nil {
		return c.copied[dir]
	}
	return nil
}

// onAny runs act as an engine call about a container, under the lock.
func (e *Engine) onAny(ctx context.Context, call, id string, act func(*container) error) error {
	return e.call(ctx, call, id, func() error { return e.withContainer(id, act) })
}

// onRunning is onAny for a container that runs.
func (e *Engine) onRunning(ctx context.Context, call, id string, act func(*container) error) error {
	return e.onAny(ctx, call, id, mustRun(act))
}

// mustRun refuses a container that does not run.
func mustRun(act func(*container) error) func(*container) error {
	return func(c *container) error {
		if !c.running() {
			return fmt.Errorf("%w: Container %s is not running", errdefs.ErrConflict, c.id)
		}
		return act(c)
	}
}

// withContainer calls act with a container, under the lock.
func (e *Engine) withContainer(id string, act func(*container) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(id)
	if err != nil {
		return err
	}
	return act(c)
}
