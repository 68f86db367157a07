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
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/google/renameio/v2"
)

// Options describe the new process.
type Options struct {
	// Args are its arguments, and Stdin its standard input.
	Args  []string
	Stdin []byte
	// Log is the file with its output. An earlier file is replaced when the process is ready, or has ended with exit
	// code 0. If the process fails, the earlier file stays.
	Log string
	// Status gets a line for each status that the process reports.
	Status io.Writer
}

// Start starts the process in a session of its own, and waits until it is ready. Then it returns the process id. If the
// process ends earlier with the exit code 0, Start returns the process id 0. After any other end, Start returns an
// error. When ctx ends, Start ends the process and waits for its end.
func Start(ctx context.Context, opts Options) (pid int, err error) {
	if err := os.MkdirAll(filepath.Dir(opts.Log), 0o755); err != nil {
		return 0, err
	}
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
	log, err := renameio.NewPendingFile(opts.Log, renameio.WithPermissions(0o600))
	if err != nil {
		return 0, err
	}
	defer log.Cleanup() // does nothing once the file is replaced
	cmd, err := start(&opts, address.Name, log.File)
	if err != nil {
		return 0, err
	}
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- cmd.Wait() }()
	var reporter sync.WaitGroup
	reporter.Go(func() {
		if report(socket, opts.Status) {
			close(ready)
		}
	})
	defer func() {
		socket.Close() // ends the reporter, so that no status is written after the return
		reporter.Wait()
	}()
	select {
	case <-ready:
		return cmd.Process.Pid, log.CloseAtomicallyReplace()
	case err = <-ended:
	case <-ctx.Done():
		return 0, errors.Join(ctx.Err(), cmd.Process.Signal(syscall.SIGTERM), <-ended)
	}
	if err != nil {
		return 0, fmt.Errorf("the new process ended: %w; its output ends with:\n%s", err, lastLines(log.Name()))
	}
	return 0, log.CloseAtomicallyReplace()
}

func start(opts *Options, notify string, output *os.File) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, opts.Args...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(opts.Stdin), output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// report writes each status until the process is ready, and returns true. It returns false if the socket is closed
// first.
func report(socket *net.UnixConn, out io.Writer) bool {
	message := make([]byte, 64<<10)
	for {
		length, err := socket.Read(message)
		if err != nil {
			return false
		}
		lines := strings.Split(strings.TrimSpace(string(message[:length])), "\n")
		if slices.Contains(lines, "READY=1") {
			return true
		}
		for _, line := range lines {
			if status, ok := strings.CutPrefix(line, "STATUS="); ok {
				fmt.Fprintln(out, status)
			}
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
