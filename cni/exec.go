package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/criadapter/criadapter/internal/step"
)

const (
	// outputDelay bounds the wait for a plugin's output after the plugin has ended or was killed. A process that the
	// plugin left running may hold the pipe open.
	outputDelay = 2 * time.Second
	// killDelay bounds the wait for the end of a killed plugin. The kernel may delay it, for example in a read from a
	// dead file system.
	killDelay = outputDelay + time.Second
	// busyTries and busyPause cover the moment in which an installer still has the plugin's file open for writing.
	busyTries = 5
	busyPause = 200 * time.Millisecond
	// maxDiagnostic bounds how much of a plugin's stderr, in bytes, goes into an error or the log.
	maxDiagnostic = 4 << 10
)

// pluginExec runs plugins for libcni. invoke.RawExec kills only the plugin itself when the context ends. An IPAM plugin
// that the plugin started then keeps the pipe open, and the call does not return. RawExec's errors also do not
// distinguish a killed plugin from a failed plugin.
type pluginExec struct {
	version.PluginDecoder
}

var _ invoke.Exec = (*pluginExec)(nil)

// FindInPath returns the path of the plugin's program. It returns errdefs.ErrUnavailable if no directory has it.
func (*pluginExec) FindInPath(plugin string, dirs []string) (string, error) {
	path, err := invoke.FindInPath(plugin, dirs)
	if err != nil {
		return "", fmt.Errorf("CNI plugin %q is not in %s: install it there: %w",
			plugin, strings.Join(dirs, ", "), errdefs.ErrUnavailable)
	}
	return path, nil
}

// ExecPlugin runs the program at path and returns its output. A plugin that fails as the specification says yields a
// *types.Error. When ctx ends, the plugin's process group is killed and the error wraps ctx.Err(). A plugin that
// survives SIGKILL for killDelay is left behind.
func (*pluginExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	defer step.At("CNI: run plugin")()
	name := filepath.Base(path)
	for try := 1; ; try++ {
		stdout, stderr, err := runPlugin(ctx, path, stdin, environ)
		if err == nil {
			if len(stderr) > 0 {
				log.G(ctx).WithFields(log.Fields{"plugin": name, "stderr": string(stderr)}).
					Debug("CNI plugin wrote to stderr")
			}
			return stdout, nil
		}
		if ctx.Err() != nil {
			return nil, stopped(ctx, name, err)
		}
		if !errors.Is(err, syscall.ETXTBSY) || try == busyTries {
			return nil, pluginError(err, stdout, stderr)
		}
		select {
		case <-ctx.Done():
		case <-time.After(busyPause):
		}
	}
}

func runPlugin(ctx context.Context, path string, stdin []byte, environ []string) (stdout, stderr []byte, err error) {
	var out, diagnostic bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = environ
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &out, &diagnostic
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	// This goroutine starts the plugin, which runs in the network namespace of its thread.
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(killDelay):
			// The plugin may still write to the buffers.
			return nil, nil, &unkillableError{pid: cmd.Process.Pid}
		}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		// The plugin succeeded. A process that the plugin left running held the output open. It is not killed.
		err = nil
	}
	return out.Bytes(), truncate(diagnostic.Bytes()), err
}

// unkillableError reports a plugin that was killed and has not ended.
type unkillableError struct{ pid int }

// Error implements error.
func (e *unkillableError) Error() string {
	return fmt.Sprintf("process %d cannot be killed, look at what it waits for (/proc/%[1]d/stack)", e.pid)
}

// stopped is the error of a plugin that was killed because its context ended.
func stopped(ctx context.Context, name string, err error) error {
	why := context.Cause(ctx)
	if !errors.Is(why, ctx.Err()) {
		why = fmt.Errorf("%w: %w", why, ctx.Err())
	}
	var unkillable *unkillableError
	if errors.As(err, &unkillable) {
		why = fmt.Errorf("%w: %w", unkillable, why)
	}
	return fmt.Errorf("CNI plugin %s was stopped: %w", name, why)
}

// pluginError reads the error that a plugin printed, as JSON on stdout.
func pluginError(err error, stdout, stderr []byte) error {
	var reported types.Error
	if json.Unmarshal(stdout, &reported) == nil && (reported.Code != 0 || reported.Msg != "") {
		return &reported
	}
	if text := bytes.TrimSpace(append(truncate(stdout), stderr...)); len(text) > 0 {
		return fmt.Errorf("%w: %q", err, text)
	}
	return err
}

func truncate(b []byte) []byte {
	return b[:min(len(b), maxDiagnostic):min(len(b), maxDiagnostic)]
}

// typed adds errdefs.ErrUnavailable to an error whose code in the specification means "not now".
func typed(err error) error {
	var reported *types.Error
	if !errors.As(err, &reported) {
		return err
	}
	switch reported.Code {
	case types.ErrTryAgainLater, types.ErrPluginNotAvailable, types.ErrLimitedConnectivity:
		return fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)
	}
	return err
}
