package docker

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The engine is the dockerd that has the socket open, not the process that listened first, and not another dockerd.
func TestEngineBehindASocketThatIsPassedOn(t *testing.T) {
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
	process("1", "systemd", "/proc/self/fd")
	process("5", "dockerd", t.TempDir())
	process("7", "dockerd", "/proc/self/fd")
	process("9", "proxy", "/proc/self/fd")
	testutil.Must(t, os.Symlink("/proc/self/net", filepath.Join(proc, "net")))
	for name, c := range map[string]struct {
		peer   int
		socket string
		want   int
	}{
		"passed on": {1, socket, 7}, "by a link": {1, link, 7}, "its own": {5, socket, 5},
		"of another": {1, socket + "x", 1}, "unseen": {0, socket, 7},
	} {
		testutil.Equal(t, behind(proc, c.peer, c.socket), c.want, "%s", name)
	}
}
