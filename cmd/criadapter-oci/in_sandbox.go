package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// gVisor's runsc runs all containers of a pod in one process. For each container it gives runc's shim the id of that
// process, so the shim would never see a container end. Also, runsc wants the standard streams of such a container at
// `start`, but the shim passes them at `create`. So `create` leaves a process of this program, the waiter, and gives
// the shim the waiter's id. The waiter has the streams, runs the runtime's `start`, and ends with the container's exit
// code.

// sandboxVerbs are the commands that differ for a container in a sandbox. They return the real runtime's exit code.
var sandboxVerbs = map[string]func(c call, real ocinote.Runtime, environ []string) (int, error){
	"create": createInSandbox, "start": startInSandbox, "delete": deleteInSandbox,
}

// command is a call of the real runtime.
func command(real ocinote.Runtime, environ, args []string) *exec.Cmd {
	cmd := exec.Command(real.Path, append(slices.Clone(real.Args), args...)...)
	cmd.Env = environ
	return cmd
}

// exitCode returns the exit code of a command that ended with err. It returns err if the command has no exit code.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// createInSandbox makes the container and its waiter.
func createInSandbox(c call, real ocinote.Runtime, environ []string) (int, error) {
	create := command(real, environ, c.args)
	create.Stdin, create.Stdout, create.Stderr = os.Stdin, os.Stdout, os.Stderr
	code, err := exitCode(create.Run())
	if err != nil || code != 0 {
		return code, err
	}
	if err := c.leaveWaiter(real, environ); err != nil {
		_, deleteErr := deleteInSandbox(c, real, environ)
		return 0, errors.Join(err, deleteErr)
	}
	return 0, nil
}

// leaveWaiter starts the waiter and replaces the sandbox's process id by the waiter's.
func (c call) leaveWaiter(real ocinote.Runtime, environ []string) error {
	socket, err := c.listen()
	if err != nil {
		return err
	}
	defer socket.Close()
	waiter := exec.Command("/proc/self/exe")
	waiter.Args = slices.Concat([]string{ociName, waiterFlag, real.Path}, real.Args, c.ofContainer("wait"))
	waiter.Env, waiter.Dir, waiter.ExtraFiles = environ, "/", []*os.File{socket}
	waiter.Stdin, waiter.Stdout, waiter.Stderr = os.Stdin, os.Stdout, os.Stderr
	waiter.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to the shim's group do not reach the waiter
	if err := waiter.Start(); err != nil {
		return fmt.Errorf("start the process that waits for container %.12s: %w", c.container, err)
	}
	if c.pidFile == "" {
		return nil
	}
	unfinished := c.pidFile + ".criadapter"
	err = os.WriteFile(unfinished, []byte(strconv.Itoa(waiter.Process.Pid)), 0o644)
	if err == nil {
		err = os.Rename(unfinished, c.pidFile)
	}
	if err != nil {
		return errors.Join(err, waiter.Process.Kill())
	}
	return nil
}

// startInSandbox has the waiter start the container.
func startInSandbox(c call, real ocinote.Runtime, _ []string) (int, error) {
	conn, err := c.dial()
	if err != nil {
		return 0, fmt.Errorf("the process that waits for container %.12s: %w", c.container, err)
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(startRequest{Args: slices.Concat(real.Args, c.args)}); err != nil {
		return 0, err
	}
	var answer startAnswer
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return 0, fmt.Errorf("the process that waits for container %.12s: %w", c.container, err)
	}
	return answer.Code, nil
}

// startRequest asks the waiter to call the runtime with Args. startAnswer has the exit code.
type (
	startRequest struct{ Args []string }
	startAnswer  struct{ Code int }
)

// deleteInSandbox removes the container, even if it still runs: for the shim it has ended with its waiter.
func deleteInSandbox(c call, real ocinote.Runtime, environ []string) (int, error) {
	remove := command(real, environ, c.ofContainer("delete", "--force"))
	remove.Stdout, remove.Stderr = os.Stdout, os.Stderr
	code, err := exitCode(remove.Run())
	// A connection without a request ends a waiter whose container has not started.
	if conn, dialErr := c.dial(); dialErr == nil {
		_ = conn.Close()
	}
	if removeErr := os.Remove(c.notes.WaiterSocket(c.container)); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return code, err
}

// nameProcess has the runtime write a file (ocinote.SandboxPIDSuffix) with the process id that a command has inside the
// sandbox. criadapter signals the command by that id. nameProcess also removes the files of ended commands. A command
// has ended when the shim has removed its pid file.
func (c *call) nameProcess() {
	old, _ := filepath.Glob(filepath.Join(filepath.Dir(c.pidFile), "*"+ocinote.SandboxPIDSuffix))
	for _, file := range old {
		if isMissing(strings.TrimSuffix(file, ocinote.SandboxPIDSuffix)) {
			_ = os.Remove(file)
		}
	}
	verb := slices.Index(c.args, c.verb)
	c.args = slices.Insert(slices.Clone(c.args), verb+1, "--internal-pid-file", c.pidFile+ocinote.SandboxPIDSuffix)
}

// ofContainer returns the arguments of another command for the call's container.
func (c call) ofContainer(verb string, flags ...string) []string {
	var args []string
	if c.root != "" {
		args = append(args, "--root", c.root)
	}
	return append(append(append(args, verb), flags...), c.container)
}

// short runs f with a path of the socket that fits into the kernel's limit of 108 bytes.
func (c call) short(f func(path string) error) error {
	dir, err := os.Open(string(c.notes))
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(c.notes.WaiterSocket(c.container))))
}

// The functions below make sockets by system calls, because package net would make each start of this program a tenth
// longer.

// listen makes the waiter's socket.
func (c call) listen() (*os.File, error) {
	return c.socket(func(fd int, address syscall.Sockaddr) error {
		if err := syscall.Bind(fd, address); err != nil {
			return os.NewSyscallError("bind", err)
		}
		return os.NewSyscallError("listen", syscall.Listen(fd, 1))
	})
}

// dial connects to the waiter.
func (c call) dial() (*os.File, error) {
	return c.socket(func(fd int, address syscall.Sockaddr) error {
		return os.NewSyscallError("connect", syscall.Connect(fd, address))
	})
}

// socket makes a socket and calls use with it and the address of the waiter.
func (c call) socket(use func(fd int, address syscall.Sockaddr) error) (file *os.File, err error) {
	err = c.short(func(path string) error {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		file = os.NewFile(uintptr(fd), path)
		if err := use(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
			return errors.Join(err, file.Close())
		}
		return nil
	})
	return file, err
}
