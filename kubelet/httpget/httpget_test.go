package httpget

import (
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestDialerLingers looks at the socket: a close waits a second at most, and leaves no port in TIME_WAIT for a minute.
func TestDialerLingers(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	conn, err := Dialer().DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		linger, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_LINGER) // the first of two integers
		if err != nil || linger != 1 {
			t.Errorf("SO_LINGER is %d, %v", linger, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHeaders asks for no compressed answer: a probe's answer is shown as it is, and the server has less work.
func TestHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("Accept-Encoding")+"|"+r.Header.Get("Accept")+"|"+r.UserAgent()+"|"+r.Header.Get("Connection"))
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	setHeaders(request, nil, "test")
	answer, err := Client(0).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || string(got) != "|*/*|test|close" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestPath takes every path that the kubelet takes, one that is no URL as it stands.
func TestPath(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"", "http://10.0.0.1:80"},
		{"/", "http://10.0.0.1:80/"},
		{"healthz", "http://10.0.0.1:80/healthz"},
		{"/a?b=c#d", "http://10.0.0.1:80/a?b=c#d"},
		{"/%zz", "http://10.0.0.1:80/%25zz"},
		{"a:b", "http://10.0.0.1:80/a:b"},
	} {
		request, err := Request(t.Context(), &v1.HTTPGetAction{Path: c.path, Port: intstr.FromInt32(80)}, &v1.Container{}, "10.0.0.1", "test")
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
		} else if got := request.URL.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
}
