package ociexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

const (
	// askTimeout bounds a command that askRuntime runs.
	askTimeout = 10 * time.Second
	// outputDelay bounds the wait for a runtime's output after the runtime has ended or was killed: a process that it
	// left running may hold the pipe open.
	outputDelay = 2 * time.Second
)

// askRuntime runs a command of a runtime, with this environment alone, and returns its output.
func askRuntime(ctx context.Context, environ []string, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = append([]string{}, environ...), "/" // a nil Env would be this program's environment
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, outputDelay
	// With ErrWaitDelay the runtime succeeded, and a process that it left running held its output open.
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, fmt.Errorf("%w: %s", errors.Join(ctx.Err(), err), bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
