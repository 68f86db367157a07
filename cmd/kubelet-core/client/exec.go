package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Constants of the remote command protocol, version 4, which every kubelet and runtime supports.
const (
	remoteCommand   = "v4.channel.k8s.io"
	streamType      = "streamType"
	nonZeroExitCode = "NonZeroExitCode"
	exitCodeCause   = "ExitCode"
)

// maxStatus bounds the status of a command's end, in bytes.
const maxStatus = 1 << 20

// Size is the size of a terminal.
type Size struct{ Width, Height uint16 }

// ExecOptions are a command and its streams.
type ExecOptions struct {
	Command []string
	// TTY gives the command a terminal. Stderr is not used then.
	TTY bool
	// Stdin may be nil. Stdout and Stderr are written to concurrently.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Sizes receives the size of the user's terminal after each change. It is nil without a terminal.
	Sizes <-chan Size
}

// Runtime is the part of CRI that starts a command. A client of k8s.io/cri-client implements it.
type Runtime interface {
	Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
}

// ExitError is the exit code of a command that failed.
type ExitError struct{ Code int }

func (e *ExitError) Error() string {
	return fmt.Sprintf("command terminated with exit code %d", e.Code)
}

// RunningContainer returns the runtime's id of a container. A container that does not run is an
// errdefs.ErrFailedPrecondition.
func RunningContainer(pod *v1.Pod, name string) (string, error) {
	status := containerStatus(pod, name)
	if status.State.Running == nil {
		reason := cmp.Or(containerReason(&status), "not started")
		return "", fmt.Errorf("container %s of pod %s does not run (%s): %w", name, pod.Name, reason,
			errdefs.ErrFailedPrecondition)
	}
	id := model.RuntimeID(status.ContainerID)
	if id == "" {
		return "", fmt.Errorf("container %s of pod %s: %q is not a container id: %w", name, pod.Name,
			status.ContainerID, errdefs.ErrInternal)
	}
	return id, nil
}

// Exec runs a command in a container and waits for its end. An exit code other than 0 is an *ExitError. Exec may read
// more from Stdin than the command does. A read of Stdin that blocks may outlast Exec.
func Exec(ctx context.Context, runtime Runtime, container string, opts ExecOptions) error {
	response, err := runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: container, Cmd: opts.Command, Tty: opts.TTY, Stdin: opts.Stdin != nil, Stdout: opts.Stdout != nil,
		Stderr: opts.Stderr != nil && !opts.TTY,
	})
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	conn, err := dial(ctx, response.GetUrl())
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	defer conn.Close()
	// At the end of ctx, closing the connection ends the reads in stream.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err = stream(conn, opts)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// dial opens the connection that the runtime named.
func dial(ctx context.Context, address string) (httpstream.Connection, error) {
	// The runtime names its streaming server's address itself, so a proxy must not be used.
	tripper, err := spdy.NewRoundTripperWithProxy(nil, func(*http.Request) (*url.URL, error) { return nil, nil })
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(httpstream.HeaderProtocolVersion, remoteCommand)
	response, err := tripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	conn, err := tripper.NewConnection(response)
	if err != nil {
		return nil, err
	}
	if got := response.Header.Get(httpstream.HeaderProtocolVersion); got != remoteCommand {
		return nil, errors.Join(
			fmt.Errorf("the runtime's streaming server uses protocol %q, not %q", got, remoteCommand), conn.Close())
	}
	return conn, nil
}

// stream copies the command's streams. The server waits until all of them are open.
func stream(conn httpstream.Connection, opts ExecOptions) error {
	streams, err := openStreams(conn, opts)
	if err != nil {
		return err
	}
	if in := streams["stdin"]; in != nil {
		go func() {
			_, _ = io.Copy(in, opts.Stdin) // a command may end before its input does
			_ = in.Close()
		}()
	}
	if resize := streams["resize"]; resize != nil {
		done := make(chan struct{})
		defer close(done)
		go sendSizes(resize, opts.Sizes, done)
	}
	var outputs sync.WaitGroup
	var errs [2]error
	if out := streams["stdout"]; out != nil {
		outputs.Go(func() { _, errs[0] = io.Copy(opts.Stdout, out) })
	}
	if out := streams["stderr"]; out != nil {
		outputs.Go(func() { _, errs[1] = io.Copy(opts.Stderr, out) })
	}
	status, err := io.ReadAll(io.LimitReader(streams["error"], maxStatus))
	outputs.Wait()
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return err
	}
	return ended(status)
}

func openStreams(conn httpstream.Connection, opts ExecOptions) (map[string]httpstream.Stream, error) {
	wanted := []string{"error"}
	if opts.Stdin != nil {
		wanted = append(wanted, "stdin")
	}
	if opts.Stdout != nil {
		wanted = append(wanted, "stdout")
	}
	if opts.Stderr != nil && !opts.TTY {
		wanted = append(wanted, "stderr")
	}
	if opts.TTY {
		wanted = append(wanted, "resize")
	}
	streams := map[string]httpstream.Stream{}
	for _, name := range wanted {
		stream, err := conn.CreateStream(http.Header{streamType: {name}})
		if err != nil {
			return nil, err
		}
		if name != "stdin" && name != "resize" {
			// Nothing is sent on this stream. Close may fail, because a short command may already have ended.
			_ = stream.Close()
		}
		streams[name] = stream
	}
	return streams, nil
}

func sendSizes(stream io.Writer, sizes <-chan Size, done <-chan struct{}) {
	encoder := json.NewEncoder(stream)
	for {
		select {
		case size, ok := <-sizes:
			if !ok || encoder.Encode(size) != nil {
				return
			}
		case <-done:
			return
		}
	}
}

// ended returns the result of the command from the server's final status.
func ended(text []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(text, &status); err != nil {
		return fmt.Errorf("the connection ended before the command did: %w", errdefs.ErrUnavailable)
	}
	if status.Status == metav1.StatusSuccess {
		return nil
	}
	if status.Reason == nonZeroExitCode && status.Details != nil {
		for _, cause := range status.Details.Causes {
			if code, err := strconv.Atoi(cause.Message); err == nil && cause.Type == exitCodeCause {
				return &ExitError{Code: code}
			}
		}
	}
	return errors.New(status.Message)
}
