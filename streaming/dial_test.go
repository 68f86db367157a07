package streaming

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fullPort returns a port on loopback that answers no connection: its listener accepts none, and its backlog is full.
func fullPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	testutil.Must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	testutil.Must(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	testutil.Must(t, err)
	port := name.(*unix.SockaddrInet4).Port
	for range 3 {
		conn, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), 200*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the port still answers")
	return 0
}

func threads(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	testutil.Must(t, err)
	return len(all)
}

// Go ends a program with 10000 threads. A pod can leave connections to its ports pending, so these must not take
// threads.
func TestPortsThatDoNotAnswerTakeNoThreads(t *testing.T) {
	port := fullPort(t)
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	before := threads(t)
	c := openRawSPDY(t, forwardURL(t, s), portforward.ProtocolV1Name)
	const pairs = 200
	for id := range pairs {
		for i, kind := range []string{portforward.StreamTypeError, portforward.StreamTypeData} {
			c.open(spdy.StreamId(4*id+2*i+1), portforward.StreamType, kind, portforward.PortHeader, fmt.Sprint(port),
				portforward.PortForwardRequestIDHeader, fmt.Sprint(id))
		}
	}
	time.Sleep(2 * time.Second)
	grown := threads(t) - before
	testutil.Assert(t, grown <= 50, "%d connections under way take %d threads", pairs, grown)
}

func TestDialEndsWithItsContext(t *testing.T) {
	port := fullPort(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	conn, err := dial(ctx, Network{Host: true}, uint16(port))
	if err == nil {
		_ = conn.Close()
	}
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "it ended with %v", err)
	took := time.Since(begun)
	testutil.Assert(t, took <= dialTimeout/2, "it took %s", took)
}
