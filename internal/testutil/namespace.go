package testutil

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inNamespace is set in the environment of a test that InUserNamespace runs again.
const inNamespace = "TESTUTIL_IN_USER_NAMESPACE"

// AsRoot is InUserNamespace for a test that needs the rights of root, for example to mount. It returns false at once if
// root runs the test.
func AsRoot(t *testing.T) bool {
	t.Helper()
	return os.Geteuid() != 0 && InUserNamespace(t)
}

// InUserNamespace runs the calling test again as root of a user namespace and a mount namespace of its own. It returns
// true after that run has ended, and false inside the namespace. Call it first in the test, and return if it returns
// true. A skip in the namespace, also of a subtest, skips the calling test. The test must not be a subtest.
func InUserNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = RootOfUserNamespace()
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNS
	output, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, output)
	case bytes.Contains(output, []byte("--- SKIP: ")):
		t.Skipf("in the namespace:\n%s", output)
	case !bytes.Contains(output, []byte("--- PASS: "+t.Name()+" (")):
		t.Errorf("the test did not run in the namespace:\n%s", output)
	}
	return true
}

// RootOfUserNamespace returns the attributes that start a process as root of a new user namespace. Outside of the
// namespace the process has this process's user and group.
func RootOfUserNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

// LimitInotify limits the inotify "instances" or "watches" of the test's user namespace, see InUserNamespace.
func LimitInotify(t *testing.T, what string, limit int) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/user/max_inotify_"+what, fmt.Append(nil, limit), 0); err != nil {
		t.Fatal(err)
	}
}
