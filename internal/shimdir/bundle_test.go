package shimdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestBundle(t *testing.T) {
	const id = "0123456789abcdef"
	root := t.TempDir()
	proc, tasks := filepath.Join(root, "proc"), filepath.Join(root, taskDir, "moby")
	testutil.WriteFile(t, filepath.Join(tasks, id, "init.pid"), "7\n")
	testutil.WriteFile(t, filepath.Join(root, "elsewhere", "moby", id, "init.pid"), "7\n")
	process := func(pid, cwd, mounts string) {
		t.Helper()
		dir := filepath.Join(proc, pid)
		testutil.Must(t, os.MkdirAll(filepath.Join(dir, "ns"), 0o700))
		testutil.Must(t, os.Symlink(cwd, filepath.Join(dir, "cwd")))
		testutil.Must(t, os.Symlink(mounts, filepath.Join(dir, "ns", "mnt")))
	}
	process("self", "/", "mnt:[1]")
	process("5", filepath.Join(tasks, "first"), "mnt:[1]")
	process("6", filepath.Join(tasks, "first"), "mnt:[2]")
	process("8", filepath.Join(root, "elsewhere", "moby", "first"), "mnt:[1]")
	got, err := Bundle(proc, id, 7, 5)
	testutil.Assert(t, err == nil && got == filepath.Join(tasks, id), "got %q, %v", got, err)
	for _, tt := range []struct {
		fault, id string
		pid, shim int
	}{
		{"another mnt namespace", id, 7, 6},
		{"not a shim", id, 7, 8},
		{"another mnt namespace", id, 7, 9}, // which does not run
		{"no bundle", "fedcba9876543210", 7, 5},
		{"another process id", id, 10, 5},
	} {
		_, err := Bundle(proc, tt.id, tt.pid, tt.shim)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), tt.fault), "%v: %v", tt, err)
	}
}
