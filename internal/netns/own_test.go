package netns

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHasOwn(t *testing.T) {
	if HasOwn(os.Getpid()) || HasOwn(1) || HasOwn(0) || HasOwn(1<<30) {
		t.Error("this program, the first process or none has a namespace of its own")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	for name, flags := range map[string]uintptr{"its own": syscall.CLONE_NEWNET, "its parent's": 0} {
		cmd := exec.Command("cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		stdin, err := cmd.StdinPipe()
		testutil.Must(t, err)
		testutil.Must(t, cmd.Start())
		if got := HasOwn(cmd.Process.Pid); got != (flags != 0) {
			t.Errorf("%s: %v", name, got)
		}
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}
