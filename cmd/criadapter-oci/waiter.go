package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"github.com/criadapter/criadapter/internal/ocinote"
)

const (
	// waiterFlag makes this program the waiter of a container in a sandbox, see createInSandbox.
	waiterFlag = "--criadapter-wait"
	// guardFlag makes this program the waiter's guard.
	guardFlag = "--criadapter-guard"
)

const (
	// waiterSocket is the waiter's descriptor of its listening socket. guardPipe is the guard's of a pipe, whose other
	// end only the waiter has.
	waiterSocket, guardPipe = 3, 3
	// lostCode is the exit code of a container whose sandbox is gone: the code of a killed process.
	lostCode = 128 + int(syscall.SIGKILL)
)

// wait is the waiter. args are the runtime's command line that waits for the container. It starts the container on
// request, waits for its end and returns its exit code.
func wait(args []string) int {
	if !serveStart(args[0]) || dropStreams() != nil {
		return lostCode
	}
	alive, ours, err := os.Pipe()
	if err != nil {
		return lostCode
	}
	defer ours.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.ExtraFiles = append([]string{ociName, guardFlag}, args...), []*os.File{alive}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	code, err := codeOf(cmd)
	if err != nil { // the guard was killed
		killContainer(args)
		return lostCode
	}
	return code
}

// guard is the waiter's child. It waits for the container and returns its exit code. When the waiter is killed, it
// kills the container: the engine takes the waiter's end for the container's, and waits for the end of its output.
func guard(args []string) int {
	syscall.CloseOnExec(guardPipe)
	go func() {
		_, _ = os.NewFile(guardPipe, "waiter").Read(make([]byte, 1)) // returns when the waiter has ended
		killContainer(args)
	}()
	return waitFor(args)
}

// killContainer kills the container that the runtime's command line args waits for. It may have ended.
func killContainer(args []string) {
	verb := len(args) - 2 // the container is behind it
	_ = exec.Command(args[0], slices.Concat(args[1:verb], []string{"kill", args[verb+1], "KILL"})...).Run()
}

// waitFor runs the runtime's command that waits for the container, and returns the container's exit code.
func waitFor(args []string) int {
	runtime.LockOSThread() // the command ends with this thread
	var output bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout = &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var result struct{ ExitStatus *int }
	if cmd.Run() != nil || json.Unmarshal(output.Bytes(), &result) != nil || result.ExitStatus == nil {
		return lostCode
	}
	return *result.ExitStatus
}

// serveStart waits for the request to start the container, and serves it. It returns false if the container is deleted
// before, or does not start.
func serveStart(program string) bool {
	syscall.CloseOnExec(waiterSocket)
	defer func() { _ = syscall.Close(waiterSocket) }()
	fd, _, err := syscall.Accept4(waiterSocket, syscall.SOCK_CLOEXEC)
	if err != nil {
		return false
	}
	conn := os.NewFile(uintptr(fd), "start")
	defer conn.Close()
	var request startRequest
	if json.NewDecoder(conn).Decode(&request) != nil {
		return false
	}
	start := command(ocinote.Runtime{Path: program}, os.Environ(), request.Args)
	start.Stdin, start.Stdout, start.Stderr = os.Stdin, os.Stdout, os.Stderr
	code, err := codeOf(start)
	if err != nil {
		code = 1
	}
	return json.NewEncoder(conn).Encode(startAnswer{Code: code}) == nil && code == 0
}

// dropStreams closes the container's streams, whose ends are the container's.
func dropStreams() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if err := syscall.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}
