package registry

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "Localhost": true, "127.0.0.1": true, "::1": true,
		"": false, "localhost.example.com": false, "10.0.0.1": false,
	} {
		testutil.Equal(t, loopback(host), want, "%q", host)
	}
}

// A process reads the system's CA certificates only once. So the test runs itself in two processes: with a missing file
// of certificates, and with a certificate.
func TestErrorNamesMissingAuthorities(t *testing.T) {
	const hint = "/etc/ssl/certs"
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	if os.Getenv("WITH_AUTHORITIES") != "" {
		transport, err := newTransport(t.TempDir(), 0)
		testutil.Must(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		testutil.Must(t, err)
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		testutil.Require(t, err != nil, "the server is trusted")
		want := os.Getenv("WITH_AUTHORITIES") == "no"
		testutil.Assert(t, strings.Contains(err.Error(), hint) == want, "hint %t: %v", want, err)
		return
	}
	dir := t.TempDir()
	testutil.Must(t, os.WriteFile(dir+"/some.pem", someAuthority(t), 0o600))
	for with, file := range map[string]string{"no": dir + "/none.pem", "yes": dir + "/some.pem"} {
		self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestErrorNamesMissingAuthorities$")
		self.Env = append(os.Environ(), "WITH_AUTHORITIES="+with, "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+t.TempDir())
		output, err := self.CombinedOutput()
		testutil.Check(t, err, with+": "+string(output))
	}
}

// someAuthority returns a certificate that has signed nothing.
func someAuthority(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testutil.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	testutil.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
