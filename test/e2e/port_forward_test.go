package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// forward starts crictl port-forward and returns the local address.
func (c *crictl) forward(podID, transport string, port int) (*session, string) {
	c.t.Helper()
	s := c.background("port-forward", transport, podID, ":"+strconv.Itoa(port))
	return s, s.forwarded()
}

// forwarded waits until crictl port-forward listens and returns the address.
func (s *session) forwarded() (address string) {
	s.t.Helper()
	line := regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> `)
	testutil.Eventually(s.t, func() error {
		found := line.FindStringSubmatch(s.stdout.String())
		if found == nil {
			return fmt.Errorf("no forwarding: stdout %q, stderr %q", s.stdout, s.stderr)
		}
		address = found[1]
		return nil
	})
	return address
}

// ask sends a text to a service, closes its direction of the connection and returns the answer.
func ask(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	testutil.Must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	_, err = io.WriteString(conn, text)
	testutil.Must(t, err)
	testutil.Must(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	testutil.Assert(t, err == nil, "%s: %v", address, err)
	return strings.TrimSpace(string(answer))
}

func TestPortForward(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	// The service answers with the size of its input after the end of the input, which needs a half-close.
	id := c.container(p, "counter", shellImage, "nc", "-ll", "-p", "9000", "-e", "wc", "-c")
	c.awaitListener(id, 9000)
	overTransports(t, func(t *testing.T, transport string) {
		c := c.on(t)
		_, address := c.forward(p.id, transport, 9000)
		for _, size := range []int{0, 1, 5 << 20} { // one session carries many connections
			same(t, "bytes counted in the pod", ask(t, address, strings.Repeat("x", size)), strconv.Itoa(size))
		}
	})
}

// With the engine's own bridge, criadapter pins no network namespace.
func TestPortForwardOnTheEnginesBridge(t *testing.T) {
	env := rigenv.Require(t)
	own := engine.ForTest(t, engine.Options{Env: env, Config: map[string]any{"bridge": ""}})
	c := newCrictlOn(t, own.Use(env), "--network-plugin=bridge")
	p := c.runPod()
	id := c.container(p, "counter", shellImage, "nc", "-ll", "-p", "9000", "-e", "wc", "-c")
	c.awaitListener(id, 9000)
	_, address := c.forward(p.id, "--transport=spdy", 9000)
	same(t, "bytes counted in the pod", ask(t, address, "four"), "4")
}

// awaitListener waits until a process in the container's pod listens on the port.
func (c *crictl) awaitListener(id string, port int) {
	c.t.Helper()
	testutil.Eventually(c.t, func() error {
		if r := c.try("exec", "-s", id, "netstat", "-ltn"); !strings.Contains(r.stdout, fmt.Sprintf(":%d ", port)) {
			return fmt.Errorf("nothing listens on port %d: %+v", port, r)
		}
		return nil
	})
}

// onTheHost serves connections one after another on the host's loopback, and returns the port.
func onTheHost(t *testing.T, serve func(net.Conn)) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	testutil.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// Port-forward does not reach services on the host's loopback.
func TestPortForwardDoesNotReachTheHost(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	reached := make(chan struct{}, 10)
	port := onTheHost(t, func(net.Conn) { reached <- struct{}{} })
	overTransports(t, func(t *testing.T, transport string) {
		c := c.on(t)
		s, address := c.forward(p.id, transport, port)
		conn, err := net.Dial("tcp", address)
		testutil.Must(t, err)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
		// The connection ends without an answer. It may end before the text is written.
		_, _ = io.WriteString(conn, "hello")
		answer, err := io.ReadAll(conn)
		testutil.Equal(t, string(answer), "", "answer")
		testutil.Assert(t, !errors.Is(err, os.ErrDeadlineExceeded), "the connection does not end")
		testutil.Eventually(t, func() error {
			if !strings.Contains(s.stderr.String(), "connection refused") {
				return fmt.Errorf("crictl does not say that the port refused: %q", s.stderr)
			}
			return nil
		})
	})
	select {
	case <-reached:
		t.Error("the host's listener was reached")
	default:
	}
}

func TestPortForwardOnTheHostsNetwork(t *testing.T) {
	c := newCrictl(t)
	config := c.write("host-pod.json", map[string]any{
		"metadata": map[string]any{"name": "host", "namespace": "e2e", "uid": c.server.Dir},
		"linux": map[string]any{
			"security_context": map[string]any{"namespace_options": map[string]any{"network": 2}}},
	})
	id := c.run("runp", config)
	c.removeAtTheEnd(id)
	port := onTheHost(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	overTransports(t, func(t *testing.T, transport string) {
		_, address := c.on(t).forward(id, transport, port)
		same(t, "the host's echo", ask(t, address, "hello"), "hello")
	})
}

// port-forward on a terminal serves until ctrl-C.
func TestPortForwardOnTerminal(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	c.awaitListener(c.container(p, "counter", shellImage, "nc", "-ll", "-p", "9000", "-e", "wc", "-c"), 9000)
	overTransports(t, func(t *testing.T, transport string) {
		s := c.on(t).onTerminal("port-forward", transport, p.id, ":9000")
		address := s.forwarded()
		same(t, "bytes counted in the pod", ask(t, address, "hello"), "5")
		_, err := s.input.Write([]byte{3})
		testutil.Must(t, err)
		s.wait()
		r := c.on(t).try("inspectp", p.id)
		testutil.Assert(t, r.code == 0, "the pod after ctrl-C: %+v", r)
	})
}
