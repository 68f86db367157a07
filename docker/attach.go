package docker

import (
	"context"
	"io"

	"github.com/moby/moby/client"
)

// noDetachKeys is a key sequence that users do not type. The engine ends a terminal's stream at its detach keys, and
// has no option to turn them off. The engine holds back keys that may begin the sequence. With the default,
// ctrl-p,ctrl-q, a shell would get ctrl-p only together with the next key. The first key of noDetachKeys sets a mark in
// editors, which has no visible effect.
const noDetachKeys = "ctrl-@,ctrl-^,ctrl-@,ctrl-_,ctrl-@,ctrl-^,ctrl-@,ctrl-_"

// AttachContainer implements Attachments. The stream lives until it is closed or ctx ends. AttachContainer fails with
// ErrConflict for a paused container.
func (c *Client) AttachContainer(ctx context.Context, id string, opts AttachOptions) (Stream, error) {
	var attached client.ContainerAttachResult
	err := c.onContainer(ctx, "attach to container", id, func(ctx context.Context, s *session) (err error) {
		ctx, status := withResponseStatus(ctx)
		attached, err = s.api.ContainerAttach(ctx, id, client.ContainerAttachOptions{
			Stream:     true,
			Stdin:      opts.Stdin,
			Stdout:     opts.Stdout,
			Stderr:     opts.Stderr,
			DetachKeys: noDetachKeys,
		})
		return refusedUpgrade(err, status.take())
	})
	if err != nil {
		return nil, err
	}
	return newStream(ctx, attached.HijackedResponse), nil
}

// ContainerLogs implements Attachments. Reading ends with ctx.
func (c *Client) ContainerLogs(ctx context.Context, id string, opts AttachOptions) (io.ReadCloser, error) {
	var log io.ReadCloser
	err := c.doLong(ctx, "read the log of container", id, func(ctx context.Context, s *session) (err error) {
		log, err = s.api.ContainerLogs(ctx, id,
			client.ContainerLogsOptions{ShowStdout: opts.Stdout, ShowStderr: opts.Stderr})
		return err
	})
	return log, err
}

// ResizeContainer implements Attachments.
func (c *Client) ResizeContainer(ctx context.Context, id string, size TerminalSize) error {
	return c.onContainer(ctx, "resize the terminal of container", id, func(ctx context.Context, s *session) error {
		_, err := s.api.ContainerResize(ctx, id,
			client.ContainerResizeOptions{Height: uint(size.Height), Width: uint(size.Width)})
		return err
	})
}

// ResizeExec implements Attachments.
func (c *Client) ResizeExec(ctx context.Context, execID string, size TerminalSize) error {
	return c.onExec(ctx, "resize the terminal of exec", execID, func(ctx context.Context, s *session) error {
		_, err := s.api.ExecResize(ctx, execID,
			client.ExecResizeOptions{Height: uint(size.Height), Width: uint(size.Width)})
		return err
	})
}
