package ociexec

import (
	"context"

	"golang.org/x/sys/unix"
)

// Signal sends a signal to the first process of a running container, as the runtime's kill command does. pid is the
// process id that the engine reports. Signal fails with ErrUnsuitable, and sends nothing, if the signal needs the
// engine or the process had ended before the call. A process that ends after the checks is success.
func (r *Runner) Signal(ctx context.Context, id string, pid int, signal unix.Signal) error {
	process, err := unix.PidfdOpen(pid, 0) // before the checks, so that they are about the process that gets the signal
	if err != nil {
		return unsuitable("pidfd_open %d: %w", pid, err)
	}
	defer unix.Close(process)
	c, _, _, err := locate(r.proc, id, pid)
	if err != nil {
		return err
	}
	if _, err := r.kinds.of(ctx, c.program, c.environ); err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(process, signal, nil, 0); err != nil && err != unix.ESRCH {
		return unsuitable("signalling process %d: %w", pid, err)
	}
	return nil
}
