package userns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

const someHostID = 300000

func some() []Mapping { return []Mapping{{ContainerID: 0, HostID: someHostID, Size: 1000}} }

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func TestMake(t *testing.T) {
	requireRoot(t)
	child, err := Make(some(), some(), syscall.CLONE_NEWUTS|syscall.CLONE_NEWNET)
	testutil.Must(t, err)
	defer child.Close()
	proc := filepath.Dir(filepath.Dir(child.Path("user")))
	for _, file := range []string{"uid_map", "gid_map"} {
		text, err := os.ReadFile(filepath.Join(proc, file))
		want := fmt.Sprint([]string{"0", "300000", "1000"})
		testutil.Assert(t, err == nil && fmt.Sprint(strings.Fields(string(text))) == want,
			"%s is %q, %v", file, text, err)
	}
	for kind, own := range map[string]bool{"user": true, "uts": true, "net": true, "ipc": false} {
		its, err := os.Readlink(child.Path(kind))
		ours, ownErr := os.Readlink("/proc/self/ns/" + kind)
		testutil.Assert(t, err == nil && ownErr == nil && (its != ours) == own,
			"%s is %s, ours is %s: %v, %v", kind, its, ours, err, ownErr)
	}
	child.Close()
	child.Close()
	testutil.Gone(t, proc, "after the end")
	if _, err := Make([]Mapping{{ContainerID: 0, HostID: -1, Size: 1}}, some(), 0); err == nil {
		t.Error("an invalid mapping is accepted")
	}
}

// A cloned directory, a file in it, a single cloned file and a new file have owners mapped by the namespace.
func TestClone(t *testing.T) {
	requireRoot(t)
	child, err := Make(some(), some(), 0)
	testutil.Must(t, err)
	defer child.Close()
	ns, err := Open(child.Path("user"))
	testutil.Must(t, err)
	defer ns.Close()
	source, dir, single := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "f")
	for _, file := range []string{filepath.Join(source, "f"), single} {
		testutil.Must(t, os.WriteFile(file, nil, 0o600))
	}
	for from, to := range map[string]string{source: dir, filepath.Join(source, "f"): single} {
		testutil.Must(t, ns.Clone(from, to, true))
		t.Cleanup(func() { _ = syscall.Unmount(to, syscall.MNT_DETACH) })
	}
	made := filepath.Join(dir, "made")
	err = ActAs(someHostID+7, someHostID, func() error { return os.WriteFile(made, nil, 0o600) })
	testutil.Must(t, err)
	for file, want := range map[string]string{
		filepath.Join(dir, "f"): "300000 300000", single: "300000 300000", made: "300007 300000",
		filepath.Join(source, "f"): "0 0", filepath.Join(source, "made"): "7 0",
	} {
		testutil.Equal(t, ownerOf(t, file), want, "%s is of", file)
	}
	if err := os.WriteFile(filepath.Join(dir, "roots"), nil, 0o600); err == nil {
		t.Error("a user that is not mapped makes a file: the thread did not become root again")
	}
	if err := ns.Clone("/proc/sys", dir, false); err == nil ||
		!strings.Contains(err.Error(), "map the owners of /proc/sys") {
		t.Errorf("/proc is mapped: %v", err)
	}
	for _, path := range []string{filepath.Join(source, "nonesuch"), "a\x00b"} {
		testutil.Assert(t, ns.Clone(path, dir, false) != nil, "%q is mounted", path)
	}
}

func TestForbiddenTracing(t *testing.T) {
	scope := filepath.Join(t.TempDir(), "ptrace_scope")
	for text, want := range map[string]bool{"3\n": true, "2\n": false} {
		testutil.Must(t, os.WriteFile(scope, []byte(text), 0o644))
		for err, can := range map[error]bool{&os.PathError{Op: "fork/exec", Err: syscall.EPERM}: true,
			syscall.ENOSPC: false} {
			if got := explain(err, scope); !errors.Is(got, err) ||
				strings.Contains(got.Error(), "ptrace_scope") != (want && can) {
				t.Errorf("%s: %v becomes %v", text, err, got)
			}
		}
	}
	testutil.Assert(t, explain(syscall.EPERM, scope+"x") == syscall.EPERM, "without yama")
}

func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pin") // the file of a pinned namespace, without the pin's mount
	testutil.Must(t, os.WriteFile(file, nil, 0o444))
	for _, path := range []string{file, "/proc/self/ns/net", "/dev/null"} {
		if ns, err := Open(path); err == nil || !strings.Contains(err.Error(), path+" is not a user namespace") {
			t.Errorf("%s: %+v, %v", path, ns, err)
		}
	}
	if _, err := Open(file + "x"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: %v", err)
	}
	ns, err := Open("/proc/self/ns/user")
	testutil.Must(t, err)
	ns.Close()
}

func ownerOf(t *testing.T, file string) string {
	t.Helper()
	var stat syscall.Stat_t
	testutil.Must(t, syscall.Stat(file, &stat))
	return fmt.Sprint(stat.Uid, " ", stat.Gid)
}

// TestHalfAChangeIsUndone lets ActAs change the group but not the user: the thread may not set its user ids.
func TestHalfAChangeIsUndone(t *testing.T) {
	requireRoot(t)
	type result struct {
		err         error
		user, group int
		called      bool
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		var r result
		const setUID = 7 // CAP_SETUID of linux/capability.h
		r.err = changeCapabilities(func(have *capabilities) { have[0].effective &^= 1 << setUID })
		if r.err == nil {
			r.err = ActAs(1, 1, func() error { r.called = true; return nil })
		}
		r.user, r.group = syscall.Geteuid(), syscall.Getegid()
		done <- r
	}()
	r := testutil.Receive(t, done, "ActAs does not return")
	testutil.FailsWith(t, r.err, syscall.EPERM, "ActAs without the right to change the user")
	testutil.Assert(t, !r.called && r.user == 0 && r.group == 0, "the thread is left as %+v", r)
}
