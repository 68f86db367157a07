package httpget

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestDialerLingers: the socket has SO_LINGER of one second.
func TestDialerLingers(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	conn, err := Dialer().DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	testutil.Must(t, err)
	defer conn.Close()
	raw, err := conn.(syscall.Conn).SyscallConn()
	testutil.Must(t, err)
	err = raw.Control(func(fd uintptr) {
		linger, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_LINGER) // the first of two integers
		testutil.Assert(t, err == nil && linger == 1, "SO_LINGER is %d, %v", linger, err)
	})
	testutil.Must(t, err)
}

// TestHeaders: the request does not ask for a compressed answer or a kept connection.
func TestHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w,
			r.Header.Get("Accept-Encoding")+"|"+r.Header.Get("Accept")+"|"+r.UserAgent()+"|"+r.Header.Get("Connection"))
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	testutil.Must(t, err)
	setHeaders(request, nil, "test")
	answer, err := Client(0).Do(request)
	testutil.Must(t, err)
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	testutil.Assert(t, err == nil && string(got) == "|*/*|test|close", "%s, %v", got, err)
}

// TestHTTP2: over TLS the client speaks the protocol that the server offers.
func TestHTTP2(t *testing.T) {
	for want, protocols := range map[string][]string{"HTTP/2.0": {"h2"}, "HTTP/1.1": {"http/1.1"}} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto)
		}))
		server.EnableHTTP2 = want == "HTTP/2.0"
		server.TLS = &tls.Config{NextProtos: protocols}
		server.StartTLS()
		defer server.Close()
		answer, err := Client(0).Get(server.URL)
		testutil.Must(t, err)
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		testutil.Assert(t, err == nil && string(got) == want, "with %v: %s, %v", protocols, got, err)
	}
}

// TestEmptyHeadersRemoveDefaults: an empty value of Accept or User-Agent removes the header, as Kubernetes documents.
func TestEmptyHeadersRemoveDefaults(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	testutil.Must(t, err)
	setHeaders(request, []v1.HTTPHeader{{Name: "accept"}, {Name: "User-Agent"}, {Name: "X-Empty"}}, "test")
	answer, err := Client(0).Do(request)
	testutil.Must(t, err)
	defer answer.Body.Close()
	_, accept := got["Accept"]
	_, agent := got["User-Agent"]
	_, other := got["X-Empty"]
	testutil.Assert(t, !accept && !agent && other, "headers %v", got)
}

// TestPath: paths are handled as in the kubelet, even if they are not valid URLs.
func TestPath(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"", "http://10.0.0.1:80"},
		{"/", "http://10.0.0.1:80/"},
		{"healthz", "http://10.0.0.1:80/healthz"},
		{"/a?b=c#d", "http://10.0.0.1:80/a?b=c#d"},
		{"/%zz", "http://10.0.0.1:80/%25zz"},
		{"a:b", "http://10.0.0.1:80/a:b"},
	} {
		request, err := Request(t.Context(), &v1.HTTPGetAction{Path: c.path, Port: intstr.FromInt32(80)},
			&v1.Container{}, "10.0.0.1", "test")
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
		} else if got := request.URL.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
}
