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
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	log "github.com/sirupsen/logrus"
)

const (
	// outputDelay bounds the wait for a plugin's output after the plugin has
	// ended or was killed: something it left running may hold the pipe open.
	outputDelay = 2 * time.Second
	// busyTries and busyPause cover the moment in which an installer still has
	// the plugin's file open for writing.
	busyTries = 5
	busyPause = 200 * time.Millisecond
	// maxDiagnostic bounds how much of a plugin's stderr, in bytes, goes into
	// an error or the log.
	maxDiagnostic = 4 << 10
)

// pluginExec runs plugins for libcni. It takes the place of invoke.RawExec,
// which kills only the plugin itself when the context ends: an IPAM plugin
// that the plugin started keeps running and keeps the pipe open, so that the
// call does not return. Its errors also do not tell a killed plugin from a
// failed one.
type pluginExec struct {
	version.PluginDecoder
}

var _ invoke.Exec = (*pluginExec)(nil)

// FindInPath returns the plugin's program, errdefs.ErrUnavailable when no
// folder has it.
func (*pluginExec) FindInPath(plugin string, dirs []string) (string, error) {
	path, err := invoke.FindInPath(plugin, dirs)
	if err != nil {
		return "", fmt.Errorf("CNI plugin %q is not in %s: install it there: %w",
			plugin, strings.Join(dirs, ", "), errdefs.ErrUnavailable)
	}
	return path, nil
}

// ExecPlugin runs the program at path and returns what it printed. A plugin
// that fails as the specification says yields a *types.Error. When ctx ends,
// the plugin and all that it started are killed and the error wraps ctx.Err().
func (*pluginExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	name := filepath.Base(path)
	for try := 1; ; try++ {
		stdout, stderr, err := runPlugin(ctx, path, stdin, environ)
		if err == nil {
			if len(stderr) > 0 {
				log.WithField("plugin", name).Debugf("CNI plugin wrote: %s", stderr)
			}
			return stdout, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("CNI plugin %s was stopped: %w", name, ctx.Err())
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
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		// The plugin itself succeeded; what it left behind was cut off.
		err = nil
	}
	return out.Bytes(), truncate(diagnostic.Bytes()), err
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

// typed adds the class of errdefs to the codes of the specification that mean
// "not now".
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
