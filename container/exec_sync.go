package container

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
)

const (
	// maxOutput limits the output that is kept of one stream, in bytes. CRI: "the runtime should cap the output of this
	// response to 16MB".
	maxOutput = 16 << 20
	// maxResponse limits both streams of one answer together, in bytes. A client with a gRPC message limit of 16 MiB,
	// such as the kubelet, must be able to receive the answer.
	maxResponse = 16<<20 - 4<<10
)

// ExecRequest is a command to run in a container.
type ExecRequest struct {
	Command []string
	// Timeout is the time after which the command is killed, 0 for no limit.
	Timeout time.Duration
}

// ExecResult is the outcome of a command.
type ExecResult struct {
	// Stdout and Stderr are the beginning of the output. The limits are 16 MiB for each stream, 16 MiB for one answer,
	// and 64 MiB for all running commands together. The first 16 KiB of each stream are always kept. The rest is
	// discarded.
	Stdout, Stderr []byte
	ExitCode       int32
}

// ExecSync runs a command in a running container and waits for its end (CRI ExecSync). A command that cannot be started
// gives the exit code that shells use, 126 or 127, and the runtime's error as output. At the deadline, or when ctx
// ends, ExecSync kills the command and its descendants. At the deadline the error wraps context.DeadlineExceeded. If a
// child keeps the output open, ExecSync waits up to 15 s after the command's end. The answer then has the output so
// far. ExecSync fails with ErrFailedPrecondition if the container does not run.
func (s *Service) ExecSync(ctx context.Context, id string, request ExecRequest) (*ExecResult, error) {
	if len(request.Command) == 0 {
		return nil, fmt.Errorf("cmd is empty: %w", errdefs.ErrInvalidArgument)
	}
	c, err := s.running(id)
	if err != nil {
		return nil, err
	}
	if request.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.Timeout)
		defer cancel()
	}
	p, err := s.startProcess(ctx, c, request.Command)
	if err != nil {
		return nil, err
	}
	defer p.close()
	code, err := p.wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("running %q in container %s: %w", request.Command[0], c.ID, err)
	}
	stdout, stderr := fit(p.stdout.Bytes(), p.stderr.Bytes())
	return &ExecResult{Stdout: stdout, Stderr: stderr, ExitCode: exitCode(code)}, nil
}

// fit cuts the output to maxResponse bytes, the longer stream first.
func fit(stdout, stderr []byte) (cutStdout, cutStderr []byte) {
	excess := len(stdout) + len(stderr) - maxResponse
	if excess <= 0 {
		return stdout, stderr
	}
	long, short := &stdout, &stderr
	if len(*short) > len(*long) {
		long, short = short, long
	}
	cut := min(excess, len(*long)-len(*short))
	*long = (*long)[:len(*long)-cut]
	excess -= cut
	*long = (*long)[:len(*long)-excess/2]
	*short = (*short)[:len(*short)-(excess-excess/2)]
	return stdout, stderr
}

// exitCode clamps the engine's exit code to CRI's 32 bits.
func exitCode(code int) int32 {
	return int32(min(max(code, math.MinInt32), math.MaxInt32))
}
