package testutil

import (
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// StartProcess starts a process that waits, in new namespaces as the clone flags say. It returns the process id, and a
// function that ends the process. The process ends with the test at the latest.
func StartProcess(t testing.TB, flags uintptr) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	stdin, err := cmd.StdinPipe()
	Must(t, err)
	Must(t, cmd.Start())
	end = sync.OnceFunc(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	t.Cleanup(end)
	return cmd.Process.Pid, end
}
