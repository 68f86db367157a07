package docker

import (
	"context"
	"io"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// PauseContainer implements Checkpoints.
func (c *Client) PauseContainer(ctx context.Context, id string) error {
	return c.onContainer(ctx, "pause container", id, func(ctx context.Context, s *session) error {
		_, err := s.api.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
}

// UnpauseContainer implements Checkpoints.
func (c *Client) UnpauseContainer(ctx context.Context, id string) error {
	return c.onContainer(ctx, "unpause container", id, func(ctx context.Context, s *session) error {
		_, err := s.api.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

// CreateCheckpoint implements Checkpoints.
func (c *Client) CreateCheckpoint(ctx context.Context, id, dir, name string) error {
	return c.doLong(ctx, "checkpoint container", id, func(ctx context.Context, s *session) error {
		_, err := s.api.CheckpointCreate(ctx, id,
			client.CheckpointCreateOptions{CheckpointID: name, CheckpointDir: dir})
		return err
	})
}

// RestoreContainer implements Checkpoints.
func (c *Client) RestoreContainer(ctx context.Context, id, name string) error {
	return c.doLong(ctx, "restore container", id, func(ctx context.Context, s *session) error {
		_, err := s.api.ContainerStart(ctx, id, client.ContainerStartOptions{CheckpointID: name})
		return err
	})
}

// ListChanges implements Checkpoints.
func (c *Client) ListChanges(ctx context.Context, id string) ([]container.FilesystemChange, error) {
	var result client.ContainerDiffResult
	err := c.doLong(ctx, "list changes of container", id, func(ctx context.Context, s *session) (err error) {
		result, err = s.api.ContainerDiff(ctx, id, client.ContainerDiffOptions{})
		return err
	})
	return result.Changes, err
}

// CopyToContainer implements Checkpoints.
func (c *Client) CopyToContainer(ctx context.Context, id, dir string, archive io.Reader) error {
	return c.doLong(ctx, "copy files to container", id, func(ctx context.Context, s *session) error {
		// With CopyUIDGID the engine would give all files to the container's user.
		_, err := s.api.CopyToContainer(ctx, id, client.CopyToContainerOptions{
			DestinationPath: dir, Content: archive, AllowOverwriteDirWithFile: true,
		})
		return err
	})
}
