package ociexec

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// signalPatience bounds the checks before a signal: they may ask the runtime for its version. The engine can send the
// signal without them.
const signalPatience = time.Second

// Signal sends a signal to the first process of a running container, as the runtime's kill command does. pid is the
// process id that the engine reports. Signal fails with ErrUnsuitable, and sends nothing, if the signal needs the
// engine or the process had ended before the call. A process that ends after the checks is success.
func (r *Runner) Signal(ctx context.Context, id string, pid int, signal unix.Signal) error {
	// Opened before the checks, so that they check the process that gets the signal.
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return unsuitable("pidfd_open %d: %w", pid, err)
	}
	defer unix.Close(process)
	ctx, cancel := context.WithTimeout(ctx, signalPatience)
	defer cancel()
	if _, _, _, err := r.locateRunc(ctx, id, pid); err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(process, signal, nil, 0); err != nil && err != unix.ESRCH {
		return unsuitable("signalling process %d: %w", pid, err)
	}
	return nil
}
