package docker

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// The engine is who has the socket open, not who listens first, nor another dockerd.
func TestEngineBehindASocketThatIsPassedOn(t *testing.T) {
	socket, proc := filepath.Join(t.TempDir(), "s"), t.TempDir()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	link := socket + "-link"
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	process := func(pid, name, files string) {
		dir := filepath.Join(proc, pid)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "comm"), []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(files, filepath.Join(dir, "fd")); err != nil {
			t.Fatal(err)
		}
	}
	process("1", "systemd", "/proc/self/fd")
	process("5", "dockerd", t.TempDir())
	process("7", "dockerd", "/proc/self/fd")
	process("9", "proxy", "/proc/self/fd")
	if err := os.Symlink("/proc/self/net", filepath.Join(proc, "net")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peer   int
		socket string
		want   int
	}{
		"passed on": {1, socket, 7}, "by a link": {1, link, 7}, "its own": {5, socket, 5}, "of another": {1, socket + "x", 1}, "unseen": {0, socket, 7},
	} {
		if got := behind(proc, c.peer, c.socket); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
