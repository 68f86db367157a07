package docker

import (
	"context"

	"github.com/moby/moby/client"
)

// CreateExec implements Execs. It fails with ErrConflict for a container that does not run or is paused.
func (c *Client) CreateExec(ctx context.Context, containerID string, opts ExecOptions) (string, error) {
	var created client.ExecCreateResult
	err := c.onContainer(ctx, "create exec in container", containerID,
		func(ctx context.Context, s *session) (err error) {
			created, err = s.api.ExecCreate(ctx, containerID, client.ExecCreateOptions{
				Cmd:          opts.Command,
				TTY:          opts.TTY,
				AttachStdin:  opts.Stdin,
				AttachStdout: opts.Stdout,
				AttachStderr: opts.Stderr,
				DetachKeys:   noDetachKeys,
			})
			return err
		})
	return created.ID, err
}

// AttachExec implements Execs. The stream lives until it is closed or ctx ends.
func (c *Client) AttachExec(ctx context.Context, execID string, opts ExecOptions) (Stream, error) {
	var attached client.ExecAttachResult
	err := c.onExec(ctx, "start exec", execID, func(ctx context.Context, s *session) (err error) {
		ctx, status := withResponseStatus(ctx)
		attached, err = s.api.ExecAttach(ctx, execID, client.ExecAttachOptions{TTY: opts.TTY})
		return refusedUpgrade(err, status.take())
	})
	if err != nil {
		return nil, err
	}
	return newStream(ctx, attached.HijackedResponse), nil
}

// InspectExec implements Execs.
func (c *Client) InspectExec(ctx context.Context, execID string) (ExecState, error) {
	var result client.ExecInspectResult
	err := c.onExec(ctx, "inspect exec", execID, func(ctx context.Context, s *session) (err error) {
		result, err = s.api.ExecInspect(ctx, execID, client.ExecInspectOptions{})
		return err
	})
	return ExecState{Running: result.Running, ExitCode: result.ExitCode, PID: result.PID}, err
}
