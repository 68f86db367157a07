package proctable

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestSocketsOfAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a socket")
	listener, err := net.Listen("unix", path)
	testutil.Must(t, err)
	defer func() { _ = listener.Close() }()
	sockets := Sockets("/proc")
	opens := func(pid int) bool {
		return slices.ContainsFunc(OpenFiles(fmt.Sprintf("/proc/%d", pid)), func(link string) bool {
			return sockets[link] == path
		})
	}
	testutil.Assert(t, opens(os.Getpid()), "the process that listens does not have the socket open")
	testutil.Assert(t, !opens(1), "process 1 has the socket open")
	testutil.Equal(t, len(Sockets(t.TempDir())), 0, "sockets of a kernel without the table")
	testutil.Equal(t, len(OpenFiles(t.TempDir())), 0, "open files of a process that has ended")
}
