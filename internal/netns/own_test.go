package netns

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHasOwn(t *testing.T) {
	testutil.Assert(t, !HasOwn(os.Getpid()) && !HasOwn(1) && !HasOwn(0) && !HasOwn(1<<30),
		"this program, the first process or a missing process counts as one with its own namespace")
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	for name, flags := range map[string]uintptr{"its own": syscall.CLONE_NEWNET, "its parent's": 0} {
		cmd := exec.Command("cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		stdin, err := cmd.StdinPipe()
		testutil.Must(t, err)
		testutil.Must(t, cmd.Start())
		testutil.Equal(t, HasOwn(cmd.Process.Pid), (flags != 0), "%s", name)
		stdin.Close()
		testutil.Check(t, cmd.Wait())
	}
}
