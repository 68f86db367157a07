package docker

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The engine is the dockerd that has the socket open, or the list of volumes in the data root. It is neither the
// process that listened first nor another dockerd.
func TestEngineBehindAnotherProcess(t *testing.T) {
	socket, proc := filepath.Join(t.TempDir(), "s"), t.TempDir()
	listener, err := net.Listen("unix", socket)
	testutil.Must(t, err)
	defer func() { _ = listener.Close() }()
	link := socket + "-link"
	testutil.Must(t, os.Symlink(socket, link))
	process := func(pid, name, files string) {
		dir := filepath.Join(proc, pid)
		testutil.WriteFile(t, filepath.Join(dir, "comm"), name+"\n")
		testutil.Must(t, os.Symlink(files, filepath.Join(dir, "fd")))
	}
	root := t.TempDir()
	volumes := filepath.Join(root, "volumes", "metadata.db")
	testutil.WriteFile(t, volumes, "")
	files := t.TempDir()
	testutil.Must(t, os.Symlink(volumes, filepath.Join(files, "12")))
	process("3", "other", files)
	process("4", "dockerd", files)
	process("1", "systemd", "/proc/self/fd")
	process("5", "dockerd", t.TempDir())
	process("7", "dockerd", "/proc/self/fd")
	process("9", "proxy", "/proc/self/fd")
	testutil.Must(t, os.Symlink("/proc/self/net", filepath.Join(proc, "net")))
	for name, c := range map[string]struct {
		peer         int
		socket, root string
		want         int
	}{
		"passed on": {1, socket, root, 7}, "by a link": {1, link, root, 7}, "its own": {5, socket, root, 5},
		"of another": {1, socket + "x", root + "x", 1}, "unseen": {0, socket, root, 7},
		"by a proxy": {9, socket + "x", root, 4}, "by an unseen proxy": {0, socket + "x", root, 4},
	} {
		testutil.Equal(t, enginePID(proc, c.peer, c.socket, c.root), c.want, "%s", name)
	}
}
