package proctable

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHoldersOfASocket(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a socket"), filepath.Join(dir, "link")
	listener, err := net.Listen("unix", path)
	testutil.Must(t, err)
	defer func() { _ = listener.Close() }()
	testutil.Must(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		testutil.Assert(t, slices.Contains(Holders("/proc", name), os.Getpid()),
			"%s is open in %v", name, Holders("/proc", name))
	}
	testutil.Equal(t, len(Holders("/proc", filepath.Join(dir, "none"))), 0, "holders of a socket that is not there")
	testutil.Equal(t, len(Sockets(dir)), 0, "sockets of a kernel without the table")
	testutil.Equal(t, len(OpenFiles(dir)), 0, "open files of a process that has ended")
}

func TestOnlySystemdHasASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	testutil.Must(t, err)
	defer func() { _ = listener.Close() }()
	none := t.TempDir()
	for name, c := range map[string]struct {
		first, second string // the directories of open files of the processes 1 and 2
		comm          string
		want          bool
	}{
		"systemd listens for it":   {"/proc/self/fd", none, "systemd", true},
		"its service runs":         {"/proc/self/fd", "/proc/self/fd", "systemd", false},
		"process 1 in a container": {"/proc/self/fd", none, "criadapter", false},
		"without rights":           {none, none, "systemd", false},
	} {
		proc := t.TempDir()
		for i, files := range []string{c.first, c.second} {
			process := filepath.Join(proc, strconv.Itoa(i+1))
			testutil.WriteFile(t, filepath.Join(process, "comm"), c.comm+"\n")
			testutil.Must(t, os.Symlink(files, filepath.Join(process, "fd")))
		}
		testutil.Must(t, os.Symlink("/proc/self/net", filepath.Join(proc, "net")))
		testutil.Equal(t, OnlySystemd(proc, path), c.want, "%s", name)
	}
}
