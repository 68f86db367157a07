package streaming

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/criadapter/criadapter/internal/testutil"
)

// status asks for a URL as a browser would and returns the answer's code.
func status(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	resp, err := client.Get(url)
	testutil.Must(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestUnknownTokensAreNotFound(t *testing.T) {
	s := serve(t, Options{Runtime: fakeRuntime{}})
	good := execURL(t, s, request(remotecommand.Options{Stdout: true}))
	testutil.Assert(t, strings.HasPrefix(good, "http://"+s.listener.Addr().String()+"/exec/"), "URL %s", good)
	attach := strings.Replace(good, "/exec/", "/attach/", 1)
	base := "http://" + s.listener.Addr().String()
	for _, url := range []string{base, base + "/", base + "/exec", base + "/exec/",
		base + "/exec/AAAAAAAAAAAAAAAAAAAAAA", good + "/", good + "A", attach} {
		testutil.Equal(t, status(t, http.DefaultClient, url), http.StatusNotFound, "%s", url)
	}
	// A request without an upgrade is refused, and uses up the token.
	testutil.Equal(t, status(t, http.DefaultClient, good), http.StatusBadRequest, "without an upgrade")
	testutil.Equal(t, status(t, http.DefaultClient, good), http.StatusNotFound, "a used token")
}

func TestExpiredTokenIsNotFound(t *testing.T) {
	s := serve(t, Options{Runtime: fakeRuntime{}})
	url := execURL(t, s, request(remotecommand.Options{Stdout: true}))
	s.tickets.now = func() time.Time { return time.Now().Add(ticketLife) }
	testutil.Equal(t, status(t, http.DefaultClient, url), http.StatusNotFound, "status")
}

func TestClosedServerTakesNoSessions(t *testing.T) {
	s, err := Listen(Options{Runtime: fakeRuntime{}, Address: "127.0.0.1:0"})
	testutil.Must(t, err)
	// It was never served: Close alone must release the port.
	for range 2 {
		testutil.Must(t, s.Close(t.Context()))
	}
	testutil.Assert(t, !s.begin(kindExec), "a session begins")
	listener, err := net.Listen("tcp", s.listener.Addr().String())
	testutil.Require(t, err == nil, "the port is still taken: %v", err)
	_ = listener.Close()
	testutil.Check(t, s.Serve(), "Serve after Close")
}

func TestListenRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	defer taken.Close()
	cert, key := testutil.Certificate(t, t.TempDir(), "one")
	tests := map[string]struct {
		opts Options
		is   func(error) bool
	}{
		"a taken port":        {Options{Address: taken.Addr().String()}, func(err error) bool { return err != nil }},
		"all addresses":       {Options{Address: "0.0.0.0:0"}, errdefs.IsFailedPrecondition},
		"a key alone":         {Options{Address: "127.0.0.1:0", KeyFile: key}, errdefs.IsInvalidArgument},
		"a certificate alone": {Options{Address: "127.0.0.1:0", CertFile: cert}, errdefs.IsInvalidArgument},
		"no such file":        {Options{Address: "127.0.0.1:0", CertFile: cert + "x", KeyFile: key}, os.IsNotExist},
		"files exchanged": {Options{Address: "127.0.0.1:0", CertFile: key, KeyFile: cert}, func(err error) bool {
			return err != nil
		}},
	}
	for name, tt := range tests {
		s, err := Listen(tt.opts)
		if err == nil {
			_ = s.Close(t.Context())
		}
		if name == "no such file" && err != nil {
			testutil.Assert(t, strings.Contains(err.Error(), "no such file"), "%s: %v", name, err)
			continue
		}
		testutil.Assert(t, tt.is(err), "%s: %v", name, err)
	}
}

func TestTLSWithARenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := testutil.Certificate(t, dir, "one")
	s := serve(t, Options{Runtime: fakeRuntime{}, CertFile: cert, KeyFile: key})
	url := execURL(t, s, request(remotecommand.Options{Stdout: true}))
	testutil.Require(t, strings.HasPrefix(url, "https://"), "URL %s", url)
	if got := servedTo(t, cert, url); got != http.StatusBadRequest { // no upgrade
		t.Errorf("%d", got)
	}
	testutil.Certificate(t, dir, "two")
	if got := servedTo(t, cert, url); got != http.StatusNotFound { // used
		t.Errorf("with the renewed certificate: %d", got)
	}
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	testutil.Must(t, err)
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /exec/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
	answer, _ := io.ReadAll(conn)
	testutil.Assert(t, strings.HasPrefix(string(answer), "HTTP/1.0 400"), "in the clear: %q", answer)
}

// servedTo returns the status code of a request for a URL. It trusts only the certificate in certFile.
func servedTo(t *testing.T, certFile, url string) int {
	t.Helper()
	content, err := os.ReadFile(certFile)
	testutil.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(content)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	return status(t, &http.Client{Transport: transport}, url)
}

// A client that sends nothing holds no session, and Close closes its connection.
func TestSilentConnectionsDoNotHoldUpTheEnd(t *testing.T) {
	s := serve(t, Options{Runtime: fakeRuntime{}})
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	testutil.Must(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	testutil.Check(t, s.Close(ctx))
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, err = conn.Read(make([]byte, 1))
	testutil.Assert(t, err != nil && !os.IsTimeout(err), "the connection stays: %v", err)
}
