package streaming

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

func onHost() (Network, error) { return Network{Host: true}, nil }

func forwardURL(t *testing.T, s *Server, ports ...int32) string {
	t.Helper()
	url, err := s.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	testutil.Must(t, err)
	return url
}

// forwardings are the ways to forward several connections in one session.
var forwardings = map[string]func(t *testing.T, url string) httpstream.Connection{
	"spdy": func(t *testing.T, url string) httpstream.Connection {
		conn, _ := dialSPDY(t, url, portforward.ProtocolV1Name)
		return conn
	},
	"spdy in websocket": func(t *testing.T, url string) httpstream.Connection {
		ws, _ := dialWebSocket(t, url, tunnelPrefix+portforward.ProtocolV1Name)
		ws.PayloadType = websocket.BinaryFrame
		conn, err := spdy.NewClientConnection(ws)
		testutil.Must(t, err)
		return conn
	},
}

// pair opens the two streams of one forwarded connection.
func pair(t *testing.T, conn httpstream.Connection, port, id int) (data, errs httpstream.Stream) {
	t.Helper()
	headers := http.Header{}
	headers.Set(portforward.PortHeader, strconv.Itoa(port))
	headers.Set(portforward.PortForwardRequestIDHeader, strconv.Itoa(id))
	headers.Set(portforward.StreamType, portforward.StreamTypeError)
	errs, err := conn.CreateStream(headers)
	testutil.Must(t, err)
	_ = errs.Close() // nothing is written to it
	headers.Set(portforward.StreamType, portforward.StreamTypeData)
	data, err = conn.CreateStream(headers)
	testutil.Must(t, err)
	return data, errs
}

// listen serves each connection with handle until the test ends, and returns the port.
func listen(t *testing.T, network, address string, handle func(*net.TCPConn)) int {
	t.Helper()
	listener, err := net.Listen(network, address)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn.(*net.TCPConn))
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// afterTheEnd answers only when the client has said all it has to say.
func afterTheEnd(conn *net.TCPConn) {
	input, _ := io.ReadAll(conn)
	fmt.Fprintf(conn, "got %d bytes", len(input))
}

// beforeTheEnd ends its own direction first and then reads on.
func beforeTheEnd(read chan<- string) func(conn *net.TCPConn) {
	return func(conn *net.TCPConn) {
		fmt.Fprint(conn, "first word")
		_ = conn.CloseWrite()
		input, _ := io.ReadAll(conn)
		read <- string(input)
	}
}

func TestHalfCloseByTheClient(t *testing.T) {
	for name, dial := range forwardings {
		t.Run(name, func(t *testing.T) {
			port := listen(t, "tcp4", "127.0.0.1:0", afterTheEnd)
			s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
			check := testutil.NoMoreGoroutines(t)
			conn := dial(t, forwardURL(t, s))
			for id := range 3 { // one session carries many connections
				data, _ := pair(t, conn, port, id)
				_, _ = data.Write(bytes.Repeat([]byte("x"), 1<<20))
				_ = data.Close()
				answer, err := io.ReadAll(data)
				testutil.Assert(t, err == nil && string(answer) == "got 1048576 bytes", "%q, %v", answer, err)
			}
			_ = conn.Close()
			check()
		})
	}
}

func TestHalfCloseByThePod(t *testing.T) {
	for name, dial := range forwardings {
		t.Run(name, func(t *testing.T) {
			read := make(chan string, 1)
			port := listen(t, "tcp4", "127.0.0.1:0", beforeTheEnd(read))
			s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
			conn := dial(t, forwardURL(t, s))
			data, _ := pair(t, conn, port, 0)
			answer, err := io.ReadAll(data)
			testutil.Assert(t, err == nil && string(answer) == "first word", "%q, %v", answer, err)
			_, _ = io.WriteString(data, "last word")
			_ = data.Close()
			select {
			case got := <-read:
				testutil.Assert(t, got == "last word", "the pod read %q", got)
			case <-time.After(patience):
				t.Error("the pod does not see the end")
			}
		})
	}
}

// Clients based on client-go before v0.32 (Kubernetes 1.32) wait for the end of the error stream when the pod has hung
// up. They end their own direction afterwards.
func TestErrorStreamEndsWithThePod(t *testing.T) {
	for name, dial := range forwardings {
		t.Run(name, func(t *testing.T) {
			port := listen(t, "tcp4", "127.0.0.1:0", func(conn *net.TCPConn) { fmt.Fprint(conn, "last word") })
			s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
			check := testutil.NoMoreGoroutines(t)
			conn := dial(t, forwardURL(t, s))
			data, errs := pair(t, conn, port, 0)
			answer, err := io.ReadAll(data)
			testutil.Assert(t, err == nil && string(answer) == "last word", "%q, %v", answer, err)
			ended, message := make(chan struct{}), []byte(nil)
			go func() {
				defer close(ended)
				message, err = io.ReadAll(errs)
			}()
			await(t, "the error stream ends", ended)
			testutil.Assert(t, err == nil && len(message) == 0, "message %q, %v", message, err)
			_ = data.Close()
			_ = conn.Close()
			check()
		})
	}
}

func TestRefusedPortLeavesTheSession(t *testing.T) {
	for name, dial := range forwardings {
		t.Run(name, func(t *testing.T) {
			port := listen(t, "tcp4", "127.0.0.1:0", afterTheEnd)
			s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
			conn := dial(t, forwardURL(t, s))
			refused, errs := pair(t, conn, testutil.FreePort(t), 0)
			message, err := io.ReadAll(errs)
			testutil.Assert(t, err == nil && strings.Contains(string(message), "connection refused"),
				"message %q, %v", message, err)
			rest, _ := io.ReadAll(refused)
			testutil.Assert(t, len(rest) == 0, "data %q", rest)
			data, _ := pair(t, conn, port, 1)
			_ = data.Close()
			answer, err := io.ReadAll(data)
			testutil.Assert(t, err == nil && string(answer) == "got 0 bytes", "afterwards: %q, %v", answer, err)
		})
	}
}

// A server that hangs up is not an error of the forwarding, because clients end their session after an error.
func TestPodThatResets(t *testing.T) {
	port := listen(t, "tcp4", "127.0.0.1:0", func(conn *net.TCPConn) {
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.SetLinger(0)
	})
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	conn := forwardings["spdy"](t, forwardURL(t, s))
	data, errs := pair(t, conn, port, 0)
	_, _ = io.WriteString(data, "hello")
	message, err := io.ReadAll(errs)
	testutil.Assert(t, err == nil && len(message) == 0, "message %q, %v", message, err)
}

func TestIPv6AfterIPv4(t *testing.T) {
	probe, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	_ = probe.Close()
	port := listen(t, "tcp6", "[::1]:0", afterTheEnd)
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	data, _ := pair(t, forwardings["spdy"](t, forwardURL(t, s)), port, 0)
	_ = data.Close()
	answer, err := io.ReadAll(data)
	testutil.Assert(t, err == nil && string(answer) == "got 0 bytes", "%q, %v", answer, err)
}

// The older WebSocket protocol names its ports beforehand. Each port has two channels, and the first message of a
// channel is the port.
func TestOlderWebSocketProtocol(t *testing.T) {
	port := listen(t, "tcp4", "127.0.0.1:0", func(conn *net.TCPConn) {
		input := make([]byte, 5)
		_, _ = io.ReadFull(conn, input)
		fmt.Fprintf(conn, "got %s", input)
	})
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	check := testutil.NoMoreGoroutines(t)
	ws, raw := dialWebSocket(t, forwardURL(t, s, int32(port)), "v4.channel.k8s.io")
	_, err := (channel{ws, 0}).Write([]byte("hello"))
	testutil.Must(t, err)
	var data []byte
	for {
		var message []byte
		if err := websocket.Message.Receive(ws, &message); err != nil {
			break
		}
		if len(message) > 0 && message[0] == 0 {
			data = append(data, message[1:]...)
		}
	}
	want := string([]byte{byte(port), byte(port >> 8)}) + "got hello"
	testutil.Assert(t, string(data) == want, "%q, want %q", data, want)
	_ = raw.Close()
	check()
}

func TestTunnelRefusesOtherProtocols(t *testing.T) {
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	config, err := websocket.NewConfig("ws"+strings.TrimPrefix(forwardURL(t, s), "http"), "http://localhost")
	testutil.Must(t, err)
	config.Protocol = []string{tunnelPrefix + "other.k8s.io"}
	if ws, err := websocket.DialConfig(config); err == nil {
		_ = ws.Close()
		t.Error("it was accepted")
	}
}

func TestClientOfPortForwardThatLeaves(t *testing.T) {
	connected, ended := make(chan struct{}), make(chan struct{})
	// This server neither reads, nor writes, nor hangs up.
	port := listen(t, "tcp4", "127.0.0.1:0", func(conn *net.TCPConn) {
		close(connected)
		raw, _ := conn.SyscallConn()
		for gone := false; !gone; time.Sleep(10 * time.Millisecond) {
			_ = raw.Control(func(fd uintptr) {
				info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
				gone = err != nil || info.State != unix.BPF_TCP_ESTABLISHED
			})
		}
		close(ended)
	})
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	check := testutil.NoMoreGoroutines(t)
	conn, raw := dialSPDY(t, forwardURL(t, s), portforward.ProtocolV1Name)
	pair(t, conn, port, 0)
	await(t, "the pod is reached", connected)
	_ = raw.Close()
	await(t, "the connection to the pod ends", ended)
	check()
}

func TestPodThatIsGone(t *testing.T) {
	s := serve(t,
		Options{Runtime: fakeRuntime{network: func() (Network, error) { return Network{}, errors.New("it has gone") }}})
	_, errs := pair(t, forwardings["spdy"](t, forwardURL(t, s)), 80, 0)
	message, err := io.ReadAll(errs)
	testutil.Assert(t, err == nil && strings.Contains(string(message), "it has gone"), "%q, %v", message, err)
}

func TestPanicEndsItsForwardingAlone(t *testing.T) {
	calls := make(chan struct{}, 2)
	s := serve(t, Options{Runtime: fakeRuntime{network: func() (Network, error) {
		calls <- struct{}{}
		if len(calls) == 1 {
			panic("a defect")
		}
		return Network{}, errors.New("it has gone")
	}}})
	conn := forwardings["spdy"](t, forwardURL(t, s))
	_, first := pair(t, conn, 80, 0)
	_, _ = io.ReadAll(first)
	_, second := pair(t, conn, 80, 1)
	message, err := io.ReadAll(second)
	testutil.Assert(t, err == nil && strings.Contains(string(message), "it has gone"),
		"another connection: %q, %v", message, err)
}

// The zero Network must not be taken for the node's own.
func TestNoNetworkIsNotTheHosts(t *testing.T) {
	reached := make(chan struct{}, 1)
	port := listen(t, "tcp4", "127.0.0.1:0", func(*net.TCPConn) { reached <- struct{}{} })
	if conn, err := dial(t.Context(), Network{}, uint16(port)); err == nil {
		_ = conn.Close()
		t.Error("it was reached")
	}
	testutil.Assert(t, len(reached) <= 0, "the host was reached")
}

// podNamespace makes a network namespace whose loopback is up.
func podNamespace(t *testing.T) netns.Handle {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	pid, _ := testutil.StartProcess(t, unix.CLONE_NEWNET)
	ns := netns.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	testutil.Must(t, ns.Do(t.Context(), bringUpLoopback))
	return ns
}

func bringUpLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// A forwarded connection reaches the pod's port, even if the host listens on the same port of its own loopback. This
// holds for IPv4 and IPv6.
func TestTheHostsLoopbackIsNotReached(t *testing.T) {
	ns := podNamespace(t)
	reached := make(chan string, 100)
	say := func(who string) func(*net.TCPConn) {
		return func(conn *net.TCPConn) {
			reached <- who
			fmt.Fprint(conn, who)
		}
	}
	port := listen(t, "tcp4", "127.0.0.1:0", say("host"))
	if probe, err := net.Listen("tcp6", fmt.Sprintf("[::1]:%d", port)); err == nil {
		_ = probe.Close()
		listen(t, "tcp6", fmt.Sprintf("[::1]:%d", port), say("host"))
	}
	s := serve(t,
		Options{Runtime: fakeRuntime{network: func() (Network, error) { return Network{Namespace: ns}, nil }}})
	conn := forwardings["spdy"](t, forwardURL(t, s))
	for id := range 20 {
		_, errs := pair(t, conn, port, id)
		message, err := io.ReadAll(errs)
		testutil.Assert(t, err == nil && strings.Contains(string(message), "connection refused"),
			"before the pod listens: %q, %v", message, err)
	}
	testutil.Must(t, ns.Do(t.Context(), func() error {
		listen(t, "tcp4", fmt.Sprintf("127.0.0.1:%d", port), say("pod"))
		return nil
	}))
	for id := range 20 {
		data, _ := pair(t, conn, port, 100+id)
		answer, err := io.ReadAll(data)
		testutil.Assert(t, err == nil && string(answer) == "pod", "once the pod listens: %q, %v", answer, err)
	}
	close(reached)
	for who := range reached {
		testutil.Require(t, who == "pod", "the host was reached")
	}
}

// A pod that listens on ::1 alone is reached there, in its own namespace.
func TestIPv6OfThePod(t *testing.T) {
	ns := podNamespace(t)
	var port int
	if err := ns.Do(t.Context(), func() error {
		probe, err := net.Listen("tcp6", "[::1]:0")
		if err != nil {
			return err
		}
		_ = probe.Close()
		port = listen(t, "tcp6", "[::1]:0", afterTheEnd)
		return nil
	}); err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	s := serve(t,
		Options{Runtime: fakeRuntime{network: func() (Network, error) { return Network{Namespace: ns}, nil }}})
	data, _ := pair(t, forwardings["spdy"](t, forwardURL(t, s)), port, 0)
	_ = data.Close()
	answer, err := io.ReadAll(data)
	testutil.Assert(t, err == nil && string(answer) == "got 0 bytes", "%q, %v", answer, err)
}
