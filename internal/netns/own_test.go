package netns

import (
	"os"
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
		pid, _ := testutil.StartProcess(t, flags)
		testutil.Equal(t, HasOwn(pid), (flags != 0), "%s", name)
	}
}
