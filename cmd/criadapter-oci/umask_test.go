package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/osthread"
	"github.com/criadapter/criadapter/internal/testutil"
)

// The root of a user namespace can reach its files with any umask of containerd, even if the directories already exist.
func TestMappedFilesWithAnyUmask(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	osthread.Run(func() { // the mounts and the umask end with the thread
		if err := syscall.Unshare(syscall.CLONE_NEWNS | syscall.CLONE_FS); err != nil {
			t.Error(err)
			return
		}
		if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
			t.Error(err)
			return
		}
		if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
			t.Error(err)
			return
		}
		syscall.Umask(0o077)
		for range 2 {
			if err := leaveMounts(); err != nil {
				t.Error(err)
				return
			}
			for _, dir := range []string{filesDir, rootDir, stageDir} {
				stat, err := os.Stat(dir)
				testutil.Assert(t, err == nil && stat.Mode().Perm() == 0o755, "%s: %v, %v", dir, stat.Mode(), err)
			}
		}
	})
}
