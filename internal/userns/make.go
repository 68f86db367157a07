package userns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Mapping maps ids inside of a namespace to ids outside.
type Mapping = syscall.SysProcIDMap

// Child is a stopped process in namespaces of its own.
type Child struct {
	process *os.Process
	end     chan struct{}
	gone    chan struct{}
	close   sync.Once
}

// Make makes a user namespace, and the namespaces of the clone flags (CLONE_NEW…). The user namespace owns the other
// namespaces. All namespaces last until Close, or as long as another process or mount holds them.
func Make(uids, gids []Mapping, flags uintptr) (*Child, error) {
	c := &Child{end: make(chan struct{}), gone: make(chan struct{})}
	started := make(chan error)
	go c.hold(uids, gids, flags, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", explain(err, ptraceScope))
	}
	return c, nil
}

// ptraceScope is the file of the sysctl kernel.yama.ptrace_scope. 3 forbids all tracing.
const ptraceScope = "/proc/sys/kernel/yama/ptrace_scope"

// explain adds the sysctl to the error if the sysctl forbids tracing. hold stops the child by tracing it.
func explain(err error, scope string) error {
	if text, readErr := os.ReadFile(scope); readErr != nil || !errors.Is(err, syscall.EPERM) ||
		strings.TrimSpace(string(text)) != "3" {
		return err
	}
	return fmt.Errorf("the sysctl kernel.yama.ptrace_scope is 3, it must be at most 2: %w", err)
}

// hold starts the child and ends it on Close. The goroutine keeps its thread until then. The thread is the child's
// tracer, and at the end of the thread the child gets SIGKILL (Pdeathsig).
func (c *Child) hold(uids, gids []Mapping, flags uintptr, started chan<- error) {
	defer close(c.gone)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var err error
	c.process, err = os.StartProcess("/proc/self/exe", []string{"criadapter-userns"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, Unshareflags: flags, UidMappings: uids, GidMappings: gids,
			GidMappingsEnableSetgroups: true,
			// The child stops when the program is loaded, before its first instruction.
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err == nil {
		err = awaitStop(c.process.Pid)
	}
	started <- err
	if err == nil {
		<-c.end
	}
	if c.process != nil {
		_ = c.process.Kill() // fails if the process has ended
		_, _ = c.process.Wait()
	}
}

// awaitStop waits until the child has stopped.
func awaitStop(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case status.Stopped():
			return nil
		default:
			return fmt.Errorf("its process ended with %#x", uint32(status))
		}
	}
}

// Path is the file of one of the namespaces, such as "user" or "net", until Close.
func (c *Child) Path(kind string) string {
	return "/proc/" + strconv.Itoa(c.process.Pid) + "/ns/" + kind
}

// Close ends the process. It is idempotent.
func (c *Child) Close() {
	c.close.Do(func() { close(c.end) })
	<-c.gone
}
