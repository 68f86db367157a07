package nodeapi

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/linger"
	"github.com/criadapter/criadapter/internal/testutil"
)

// talk sends a text to a local port and returns the answer.
func talk(t *testing.T, port uint16, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	testutil.Must(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	testutil.Must(t, err)
	answer, err := io.ReadAll(conn)
	testutil.Must(t, err)
	return string(answer)
}

// backend serves connections one by one with serve, after it has read the request's head.
func backend(t *testing.T, serve func(net.Conn)) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// The client's authorization must not reach the runtime.
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil &&
				request.Header.Get("Authorization") == "" {
				serve(conn)
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	return "http://" + listener.Addr().String() + "/exec/token"
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: words\r\n\r\n"

// session requests an exec in an unknown protocol. It returns the connection and the answer's code.
func (a *api) session() (*tls.Conn, *bufio.Reader, int) {
	a.t.Helper()
	pair := a.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	conn, err := tls.Dial("tcp", a.Address(), pair)
	testutil.Must(a.t, err)
	a.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn,
		"POST /exec/ns/pod/c?command=x&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: "+
			"words\r\nAuthorization: secret\r\nContent-Length: 0\r\n\r\n")
	testutil.Must(a.t, conn.SetReadDeadline(time.Now().Add(patience)))
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	testutil.Must(a.t, err)
	return conn, in, answer.StatusCode
}

func TestStreamingServersThatMisbehave(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		code         int
		text         string
	}{
		{"no upgrade", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", http.StatusBadGateway,
			"it answers 200 OK to an upgrade"},
		{"a refusal", "HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\nunknown\n", http.StatusNotFound, "unknown\n"},
		{"an endless refusal", "HTTP/1.1 500 Broken\r\n\r\n" + strings.Repeat("x", 2*maxErrorBody),
			http.StatusInternalServerError, strings.Repeat("x", maxErrorBody)},
		{"nonsense", "what?\r\n\r\n", http.StatusBadGateway, "malformed"},
		{"nothing", "", http.StatusBadGateway, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// the client may leave before the end
			r := &runtime{url: backend(t, func(conn net.Conn) { _, _ = io.WriteString(conn, c.answer) })}
			a := startAPI(t, r, nil)
			code, body := a.do(a.client, http.MethodPost, "/exec/ns/pod/c?command=x&output=1", "Connection", "Upgrade",
				"Upgrade", "words")
			testutil.Assert(t, code == c.code && strings.Contains(body, c.text) && len(body) <= maxErrorBody,
				"%d %.100q, want %d %.100q", code, body, c.code, c.text)
		})
	}
	for _, url := range []string{"ftp://127.0.0.1/x", "nonsense", "http://127.0.0.1:1/x", "http://[::/x"} {
		a := startAPI(t, &runtime{url: url}, nil)
		code, body := a.do(a.client, http.MethodPost, "/exec/ns/pod/c?command=x&output=1", "Connection", "Upgrade",
			"Upgrade", "words")
		testutil.Assert(t, code == http.StatusBadGateway, "%s: %d %s", url, code, body)
	}
}

// TestServerThatHangs: if the client gives up, the connection to a silent streaming server ends, too.
func TestServerThatHangs(t *testing.T) {
	hung, over := make(chan struct{}), make(chan error, 1)
	r := &runtime{url: backend(t, func(conn net.Conn) {
		close(hung)
		_, err := conn.Read(make([]byte, 1))
		over <- err
	})}
	a := startAPI(t, r, nil)
	settled := a.idle()
	conn, err := tls.Dial("tcp", a.Address(), a.client.Transport.(*http.Transport).TLSClientConfig)
	testutil.Must(t, err)
	fmt.Fprintf(conn,
		"POST /exec/ns/pod/c?command=x&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: words\r\n\r\n")
	<-hung
	conn.Close()
	testutil.Receive(t, over, "the connection to the runtime stays")
	settled()
}

// TestEachSideHangsUp checks that a session in an unknown protocol ends when either side closes it.
func TestEachSideHangsUp(t *testing.T) {
	const last = 1 << 20
	seen := make(chan string, 10)
	r := &runtime{url: backend(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, switching+"early") // the read below fails if the client is gone
		in := bufio.NewReader(conn)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				seen <- "end"
				return
			}
			seen <- line
			if line == "bye\n" {
				_, _ = io.WriteString(conn, strings.Repeat("z", last)) // the client reads it, or the test fails
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, in)
				return
			}
		}
	})}
	a := startAPI(t, r, nil)
	settled := a.idle()
	expect := func(want string) {
		t.Helper()
		testutil.Equal(t, testutil.Receive(t, seen, "the server does not see %q", want), want, "seen by the server")
	}

	conn, in, code := a.session()
	early := make([]byte, 5)
	_, err := io.ReadFull(in, early)
	testutil.Require(t, code == http.StatusSwitchingProtocols && err == nil && string(early) == "early",
		"%d %q, %v", code, early, err)
	fmt.Fprint(conn, "hello\n")
	expect("hello\n")
	conn.Close()
	expect("end")

	// The server ends while the client still sends. The client gets everything that the server sent.
	conn, in, _ = a.session()
	fmt.Fprint(conn, "bye\n"+strings.Repeat("more\n", 10_000))
	expect("bye\n")
	time.Sleep(50 * time.Millisecond)
	fmt.Fprint(conn, "and more\n")
	rest, err := io.ReadAll(in)
	testutil.Assert(t, err == nil && len(rest) == len("early")+last, "%d bytes, %v", len(rest), err)
	conn.Close()
	settled()

	// The API does not wait for a client that never hangs up.
	conn, _, _ = a.session()
	fmt.Fprint(conn, "bye\n")
	expect("bye\n")
	_, err = io.Copy(io.Discard, conn)
	testutil.Assert(t, err == nil, "the client does not see the end: %v", err)
	begun := time.Now()
	settled()
	took := time.Since(begun)
	testutil.Assert(t, took <= linger.Grace+20*time.Second, "the session lingered for %v", took)
}

// TestSlowClientGetsEverything: a client that reads late gets everything, even if it sends something meanwhile, such as
// a WebSocket ping.
func TestSlowClientGetsEverything(t *testing.T) {
	const size = 128 << 10 // more than the client's kernel buffers
	written := make(chan struct{})
	r := &runtime{url: backend(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, switching)
		<-written
		_, _ = conn.Write(make([]byte, size)) // the client reads it, or the test fails
	})}
	conn, in, _ := startAPI(t, r, nil).session()
	testutil.Must(t, conn.NetConn().(*net.TCPConn).SetReadBuffer(16<<10))
	close(written)
	time.Sleep(linger.Grace + time.Second)
	fmt.Fprint(conn, "ping")
	got, err := io.Copy(io.Discard, in)
	testutil.Assert(t, err == nil && got == size, "got %d bytes of %d, %v", got, size, err)
}
