package main

import (
	"bytes"
	"encoding/json"
	"errors"
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
	// waiterSocket is the waiter's descriptor of its listening socket. guardPipe is the guard's descriptor of a pipe.
	// Only the waiter has the pipe's other end.
	waiterSocket, guardPipe = 3, 3
	// lostCode is the exit code of a container whose sandbox is gone: the code of a killed process.
	lostCode = 128 + int(syscall.SIGKILL)
)

// wait runs the waiter. It starts the container on request, waits for the container's end and returns the exit code.
// args are the runtime's command line that waits for the container.
func wait(args []string) int {
	request, ok := acceptStart()
	if !ok {
		return lostCode
	}
	if code := request.start(args[0]); code != 0 {
		_ = request.answer(code)
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
	// The guard must run before the answer. If the waiter is killed earlier, `start` fails, and the engine deletes the
	// container.
	if cmd.Start() != nil || dropStreams() != nil || request.answer(0) != nil {
		return lostCode
	}
	_ = alive.Close()
	code, err := exitCode(cmd.Wait())
	if err != nil { // the guard was killed
		killContainer(args)
		return lostCode
	}
	return code
}

// guard is the waiter's child. It waits for the container and returns its exit code. When the waiter is killed, the
// guard kills the container. The engine takes the waiter's end for the container's, and then waits for the end of the
// container's output.
func guard(args []string) int {
	syscall.CloseOnExec(guardPipe)
	go func() {
		_, _ = os.NewFile(guardPipe, "waiter").Read(make([]byte, 1)) // returns when the waiter has ended
		killContainer(args)
	}()
	return waitFor(args)
}

// killContainer kills the container that the runtime's command line args waits for. The container may have ended.
func killContainer(args []string) {
	verb := len(args) - 2 // the container's id follows it
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

// acceptedStart is the shim's request to start the container, and the connection for its answer.
type acceptedStart struct {
	startRequest
	conn *os.File
}

// acceptStart waits for the request to start the container. It returns false if the container is deleted before its
// start.
func acceptStart() (acceptedStart, bool) {
	syscall.CloseOnExec(waiterSocket)
	defer func() { _ = syscall.Close(waiterSocket) }()
	fd, _, err := syscall.Accept4(waiterSocket, syscall.SOCK_CLOEXEC)
	if err != nil {
		return acceptedStart{}, false
	}
	r := acceptedStart{conn: os.NewFile(uintptr(fd), "start")}
	if json.NewDecoder(r.conn).Decode(&r.startRequest) != nil {
		_ = r.conn.Close()
		return acceptedStart{}, false
	}
	return r, true
}

// start starts the container and returns the runtime's exit code.
func (r acceptedStart) start(program string) int {
	start := command(ocinote.Runtime{Path: program}, os.Environ(), r.Args)
	start.Stdin, start.Stdout, start.Stderr = os.Stdin, os.Stdout, os.Stderr
	code, err := exitCode(start.Run())
	if err != nil {
		return 1
	}
	return code
}

// answer sends the runtime's exit code, and closes the connection.
func (r acceptedStart) answer(code int) error {
	return errors.Join(json.NewEncoder(r.conn).Encode(startAnswer{Code: code}), r.conn.Close())
}

// dropStreams closes the waiter's copies of the container's streams, so that the streams end when the container's
// copies are closed.
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
