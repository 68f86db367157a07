package container

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/step"
	"github.com/criadapter/criadapter/state"
)

// killPatience is how long a killed process may take to end before the engine kills it, too.
const killPatience = 5 * time.Second

// stopBySignal sends a container's process its stop signal, or SIGKILL without a grace period. It does not use the
// engine, which would start the OCI runtime to send a signal. It waits until the container has ended and its log is
// written, at most for grace. If the container has not ended, rest is the grace period for the engine's stop: all of
// grace if the signal was not sent, else 0. The engine's stop handles paused containers, which it resumes first, and
// containers with a restart policy, which it would otherwise start again.
func (s *Service) stopBySignal(
	ctx context.Context, c *state.Container, grace time.Duration,
) (ended bool, rest time.Duration, err error) {
	signal, patience := signalNumber(c.Meta.StopSignal), grace
	if grace <= 0 {
		signal, patience = unix.SIGKILL, killPatience
	}
	if s.opts.Commands == nil || s.opts.Cache.Err() != nil || c.Status.Paused || c.Status.Restarts || signal == 0 {
		return false, grace, nil
	}
	done := step.At("stop signal: send")
	err = s.opts.Commands.Signal(ctx, c.ID, c.Status.PID, signal)
	done()
	if err != nil {
		log.G(ctx).WithError(err).WithFields(c.LogFields()).Debug("stop signal goes through the engine")
		return false, grace, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ended = s.opts.Cache.WaitEnded(limited, c) == nil
	return ended, 0, ctx.Err()
}

// signalNumber returns the number of a signal in the engine's spelling: "SIGTERM", "term" or "15". It returns 0 for any
// other text, such as the real-time signal "SIGRTMIN+3".
func signalNumber(text string) unix.Signal {
	const last = 64
	if number, err := strconv.Atoi(text); err == nil {
		if number < 1 || number > last {
			return 0
		}
		return unix.Signal(number)
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG"))
}
