// Package detach starts this program again in the background. The new process reports its state as a service does
// (sd_notify(3)).
package detach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Options describe the new process.
type Options struct {
	// Args are its arguments, and Stdin its standard input.
	Args  []string
	Stdin []byte
	// Log is the file that gets its output. It is replaced.
	Log string
	// Status gets a line for each status that the process reports.
	Status io.Writer
}

// Start starts the process in a session of its own, and waits until it is ready. Then it returns the process id. A
// process that ends before is an error, unless its exit code is 0: then the process id is 0. When ctx ends, Start ends
// the process and waits for its end.
func Start(ctx context.Context, opts Options) (pid int, err error) {
	dir, err := os.MkdirTemp("", "kubelet-core-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	address := &net.UnixAddr{Name: filepath.Join(dir, "notify.sock"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	cmd, err := start(&opts, address.Name)
	if err != nil {
		return 0, err
	}
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- cmd.Wait() }()
	go func() {
		if report(socket, opts.Status) {
			close(ready)
		}
	}()
	select {
	case <-ready:
		return cmd.Process.Pid, nil
	case err = <-ended:
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), cmd.Process.Signal(syscall.SIGTERM), <-ended)
	}
	if err != nil {
		err = fmt.Errorf("it ended: %w; its output, in %s, ends with:\n%s", err, opts.Log, lastLines(opts.Log))
	}
	return 0, err
}

func start(opts *Options, notify string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(opts.Log), 0o755); err != nil {
		return nil, err
	}
	output, err := os.OpenFile(opts.Log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close() // the process has its own descriptor
	cmd := exec.Command(program, opts.Args...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(opts.Stdin), output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// report writes each status until the process is ready. It returns false when the socket is closed before.
func report(socket *net.UnixConn, out io.Writer) (ready bool) {
	message := make([]byte, 64<<10)
	for {
		length, err := socket.Read(message)
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(message[:length])) {
			line = strings.TrimSpace(line)
			if status, ok := strings.CutPrefix(line, "STATUS="); ok {
				fmt.Fprintln(out, status)
			}
			ready = ready || line == "READY=1"
		}
		if ready {
			return true
		}
	}
}

// lastLines returns the last lines of a file, at most 20.
func lastLines(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
