package testutil

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inNamespace is set in the environment of a test that InUserNamespace runs again.
const inNamespace = "TESTUTIL_IN_USER_NAMESPACE"

// InUserNamespace runs the calling test again as a program in a user namespace of its own, and returns true when that
// has ended; false in the namespace. The test begins with it and ends if it is true. It must not be a subtest.
func InUserNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	maps := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: maps, GidMappings: maps}
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	return true
}

// LimitInotify sets how many inotify "instances" or "watches" there are in the
// test's user namespace, see InUserNamespace.
func LimitInotify(t *testing.T, what string, limit int) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/user/max_inotify_"+what, fmt.Append(nil, limit), 0); err != nil {
		t.Fatal(err)
	}
}
