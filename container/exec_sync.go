package container

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxOutput is how much of each stream is kept, in bytes; CRI: "the runtime
	// should cap the output of this response to 16MB".
	maxOutput = 16 << 20
	// maxResponse is how much of both streams together is returned, in bytes:
	// a client that keeps gRPC's message limit of 16 MiB, as the kubelet does,
	// must be able to receive the answer.
	maxResponse = 16<<20 - 4<<10
)

// ExecRequest is a command to run in a container.
type ExecRequest struct {
	Command []string
	// Timeout ends the command when it is reached, 0 for never.
	Timeout time.Duration
}

// ExecResult is the outcome of a command.
type ExecResult struct {
	// Stdout and Stderr are the beginning of the output. Kept are 16 MiB a stream, 16 MiB in one answer, and 64 MiB for
	// all running commands together, but always 16 KiB a stream. The rest is discarded.
	Stdout, Stderr []byte
	ExitCode       int32
}

// ExecSync runs a command in a running container and waits for its end (CRI ExecSync). A command that cannot be started
// gives the exit code that shells use, 126 or 127, and the runtime's error as output. At the deadline, or when ctx
// ends, the command and its descendants are killed. At the deadline the error wraps context.DeadlineExceeded. A child
// that keeps the output open is waited for until 15 s after the command's end; then the answer has the output so far.
// It fails with ErrFailedPrecondition when the container does not run.
func (s *Service) ExecSync(ctx context.Context, id string, request ExecRequest) (*ExecResult, error) {
	if len(request.Command) == 0 {
		return nil, fmt.Errorf("cmd is empty: %w", errdefs.ErrInvalidArgument)
	}
	c, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, wrongState(c, "running")
	}
	if request.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.Timeout)
		defer cancel()
	}
	p, err := s.startProcess(ctx, c, request.Command)
	if errdefs.IsConflict(err) {
		return nil, fmt.Errorf("container %s does not run any more, or is paused: %w: %w", c.ID, errdefs.ErrFailedPrecondition, err)
	}
	if err != nil {
		return nil, fmt.Errorf("running %q in container %s: %w", request.Command[0], c.ID, err)
	}
	defer p.close()
	code, err := p.wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("running %q in container %s: %w", request.Command[0], c.ID, err)
	}
	stdout, stderr := fit(p.stdout.Bytes(), p.stderr.Bytes())
	return &ExecResult{Stdout: stdout, Stderr: stderr, ExitCode: exitCode(code)}, nil
}

// fit cuts the output to what one answer can carry, the longer stream first.
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

// exitCode fits the engine's exit code into CRI's.
func exitCode(code int) int32 {
	return int32(min(max(code, math.MinInt32), math.MaxInt32))
}
