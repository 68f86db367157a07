package netns

import (
	"os"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHasOwn(t *testing.T) {
	testutil.Assert(t, !HasOwn(os.Getpid()) && !HasOwn(1) && !HasOwn(0) && !HasOwn(1<<30),
		"HasOwn is true for this program, for process 1 or for a missing process")
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	for name, flags := range map[string]uintptr{"its own": syscall.CLONE_NEWNET, "its parent's": 0} {
		pid, _ := testutil.StartProcess(t, flags)
		testutil.Equal(t, HasOwn(pid), (flags != 0), "%s", name)
	}
}
