package detach

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestMain is also the process that Start starts: it reports a status, and ends without having been ready.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 || os.Args[1] != "report" {
		os.Exit(m.Run())
	}
	address := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"}
	conn, err := net.DialUnix("unixgram", nil, address)
	if err == nil {
		_, err = conn.Write([]byte("STATUS=it starts\n"))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// slow is a slow writer. active counts its unfinished writes.
type slow struct{ active atomic.Int32 }

func (s *slow) Write(p []byte) (int, error) {
	s.active.Add(1)
	defer s.active.Add(-1)
	time.Sleep(500 * time.Millisecond) // longer than the process lives
	return len(p), nil
}

// TestNoStatusAfterTheReturn: Start waits for the status that it is writing when the process ends.
func TestNoStatusAfterTheReturn(t *testing.T) {
	var out slow
	pid, err := Start(t.Context(), Options{
		Args: []string{"report"}, Log: filepath.Join(t.TempDir(), "log"), Status: &out,
	})
	testutil.Assert(t, pid == 0 && err == nil, "process %d, %v", pid, err)
	testutil.Assert(t, out.active.Load() == 0, "a status is written after the return")
}
