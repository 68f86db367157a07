package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// sandboxRuntime imitates runsc for a container in a sandbox. create reports the sandbox's process. start gets the
// streams. wait prints the exit code, which the test writes. kill ends the container with the exit code 137.
const sandboxRuntime = `#!/bin/sh
echo "$@" >> DIR/calls
for verb; do
	case $verb in
	create) echo 1 > DIR/pid; exit ;;
	start) [ -e DIR/broken ] && exit 3; echo "hello of the container"; exit ;;
	wait) read code < DIR/exit; echo "{\"id\":\"x\",\"exitStatus\":$code}"; exit ;;
	kill) echo 137 > DIR/exit; exit ;;
	delete) exit ;;
	esac
done
`

// inSandbox is a container in a sandbox, on sandboxRuntime.
type inSandbox struct {
	place
	dir string
}

func newInSandbox(t *testing.T) inSandbox {
	t.Helper()
	c := inSandbox{place: newPlace(t), dir: t.TempDir()}
	program := filepath.Join(c.dir, "runsc")
	c.program(program, strings.ReplaceAll(sandboxRuntime, "DIR", c.dir))
	testutil.Must(t, syscall.Mkfifo(filepath.Join(c.dir, "exit"), 0o600))
	testutil.Must(t, c.notes.Save(someID, ocinote.Note{
		InSandbox: true, Runtime: ocinote.Runtime{Path: program, Args: []string{"--debug"}},
	}))
	return c
}

// create makes the container and returns its waiter, and its output.
func (c inSandbox) create() (waiter int, output *os.File) {
	c.Helper()
	self, err := os.Executable()
	testutil.Must(c, err)
	output, theirs, err := os.Pipe()
	testutil.Must(c, err)
	c.Cleanup(func() { _ = output.Close() })
	cmd := exec.Command(self, "--criadapter-notes", string(c.notes), "--root", "/r", "create", "--bundle", c.bundle,
		"--pid-file", filepath.Join(c.dir, "pid"), someID)
	cmd.Env, cmd.Stdout = append(os.Environ(), asProgram+"=1"), theirs
	testutil.Must(c, cmd.Run())
	testutil.Must(c, theirs.Close())
	waiter, err = strconv.Atoi(strings.TrimSpace(testutil.ReadFile(c, filepath.Join(c.dir, "pid"))))
	testutil.Must(c, err)
	testutil.Assert(c, waiter > 1, "the process id is the sandbox's")
	c.Cleanup(func() { _ = syscall.Kill(waiter, syscall.SIGKILL) })
	return waiter, output
}

// code waits for the end of the waiter, which is this process's child, and returns its exit code.
func (c inSandbox) code(waiter int) int {
	c.Helper()
	var status syscall.WaitStatus
	_, err := syscall.Wait4(waiter, &status, 0, nil)
	testutil.Must(c, err)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// adopt makes this process the parent of waiters, as the shim is.
func adopt(t *testing.T) {
	t.Helper()
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	_, _, errno := syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	testutil.Require(t, errno == 0, "prctl: %v", errno)
}

// hasChild says whether a process has a child. Each child belongs to the thread that started it.
func hasChild(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	testutil.Must(t, err)
	return slices.ContainsFunc(threads, func(path string) bool {
		children, err := os.ReadFile(path)
		return err == nil && len(children) > 0
	})
}

// awaitChildren waits for the end of all children of this process: guards, and their commands.
func awaitChildren(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, func() error {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			switch {
			case errors.Is(err, syscall.ECHILD):
				return nil
			case err != nil && !errors.Is(err, syscall.EINTR):
				return err
			case pid == 0:
				return errors.New("a child lives")
			}
		}
	})
}

func TestContainerInASandbox(t *testing.T) {
	adopt(t)
	c := newInSandbox(t)
	waiter, output := c.create()
	told, code := c.run("--root", "/r", "start", someID)
	testutil.Assert(t, code == 0 && told == "", "start: %q and %d", told, code)
	c.write(filepath.Join(c.dir, "exit"), "7\n")
	testutil.Equal(t, c.code(waiter), 7, "the waiter's exit code")
	text, err := io.ReadAll(output)
	testutil.Must(t, err)
	testutil.Equal(t, string(text), "hello of the container\n", "the container's output")
	_, code = c.run("--root", "/r", "delete", someID)
	testutil.Equal(t, code, 0, "the exit code of delete")
	calls := testutil.ReadFile(t, filepath.Join(c.dir, "calls"))
	for _, call := range []string{
		"--debug --root /r create", "--debug --criadapter", "--debug --root /r wait " + someID,
		"--debug --root /r delete --force " + someID,
	} {
		want := call != "--debug --criadapter"
		testutil.Assert(t, strings.Contains(calls, call) == want, "called with %q: want %t\n%s", call, want,
			calls)
	}
	left, err := filepath.Glob(filepath.Join(string(c.notes), "*.waiter"))
	testutil.Assert(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
}

// The waiter ends with the exit code 137 if its container never starts, or if the container's own exit code is lost.
func TestWaiterEnds(t *testing.T) {
	adopt(t)
	for name, c := range map[string]struct {
		end  func(t *testing.T, c inSandbox, waiter int)
		call string // which the runtime gets
	}{
		"deleted before it starts": {func(_ *testing.T, c inSandbox, _ int) { c.run("delete", someID) }, ""},
		"it does not start": {func(t *testing.T, c inSandbox, _ int) {
			c.write(filepath.Join(c.dir, "broken"), "")
			_, code := c.run("start", someID)
			testutil.Equal(t, code, 3, "the exit code of start")
		}, ""},
		"the waiter is killed": {func(t *testing.T, c inSandbox, waiter int) {
			_, code := c.run("start", someID)
			testutil.Equal(t, code, 0, "the exit code of start")
			testutil.Assert(t, hasChild(t, waiter), "there is no guard when start has returned")
			testutil.Must(t, syscall.Kill(waiter, syscall.SIGKILL))
		}, " kill " + someID + " KILL"},
		"the sandbox is gone": {func(t *testing.T, c inSandbox, _ int) {
			c.run("start", someID)
			c.write(filepath.Join(c.dir, "exit"), "nonsense\n")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newInSandbox(t)
			waiter, _ := s.create()
			c.end(t, s, waiter)
			testutil.Equal(t, s.code(waiter), 137, "the waiter's exit code")
			awaitChildren(t)
			calls := testutil.ReadFile(t, filepath.Join(s.dir, "calls"))
			testutil.Assert(t, strings.Contains(calls, c.call), "no call%s: %s", c.call, calls)
		})
	}
}
