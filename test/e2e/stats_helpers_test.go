package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/enginecalls"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// callCounter is a socket through which a server calls the engine.
type callCounter struct {
	*enginecalls.Proxy
	// path is its socket.
	path string
}

// countCalls starts a callCounter in front of the rig's engine.
func countCalls(t *testing.T, env rigenv.Env) *callCounter {
	t.Helper()
	dir, err := os.MkdirTemp(env.WorkDir, "count") // short, because the length of a socket's path is limited
	testutil.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "engine.sock")
	proxy, err := enginecalls.Start(path, strings.TrimPrefix(env.DockerHost, "unix://"))
	testutil.Must(t, err)
	t.Cleanup(func() { testutil.Check(t, proxy.Close()) })
	return &callCounter{proxy, path}
}

// taken returns the engine calls since the last call of taken. The pings of the server's heartbeat do not count, since
// they come at their own pace.
func (c *callCounter) taken() []string {
	calls, _ := c.Take()
	return slices.DeleteFunc(calls, func(call string) bool { return call == "HEAD /_ping" })
}

// awaitSilence waits until the cache has made the calls that follow the events of a start, and returns all calls.
func (c *callCounter) awaitSilence(t *testing.T) (all []string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		time.Sleep(time.Second)
		if calls := c.taken(); len(calls) > 0 {
			all = append(all, calls...)
			return fmt.Errorf("the engine is still being asked: %v", calls)
		}
		return nil
	})
	return all
}
