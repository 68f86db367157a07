package nodeapi

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// served returns the serving certificate of a new connection.
func served(t *testing.T, a *api) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", a.Address(), &tls.Config{InsecureSkipVerify: true})
	testutil.Must(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func TestSelfMadeCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "pki")
	var a *api
	start := func(ips ...string) *x509.Certificate {
		a = startAPI(t, &runtime{}, func(o *APIOptions) { o.CertDir, o.IPs = dir, fixedIPs(ips...) })
		return served(t, a)
	}
	first := start("127.0.0.1", "fd00::1")
	info, err := os.Stat(filepath.Join(dir, keyName))
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o600, "the key: %v, %v", info.Mode(), err)
	roots := x509.NewCertPool()
	content, err := os.ReadFile(filepath.Join(dir, certificateName))
	testutil.Require(t, err == nil && roots.AppendCertsFromPEM(content), "%v in %s", err, content)
	for _, name := range []string{"node", "127.0.0.1", "fd00::1"} {
		_, err := first.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
		testutil.Assert(t, err == nil, "%s: %v", name, err)
	}
	again := start("fd00::1", "127.0.0.1")
	testutil.Assert(t, again.Equal(first), "the kept certificate is not used")
	moved := start("fd00::2")
	testutil.Assert(t, !moved.Equal(first) && moved.IPAddresses[0].Equal(net.ParseIP("fd00::2")),
		"after a change of the address: %v", moved.IPAddresses)
	testutil.Must(t, os.Truncate(filepath.Join(dir, keyName), 10))
	repaired := start("fd00::2")
	testutil.Assert(t, !repaired.Equal(moved), "a pair with a broken key is used")
}

func TestSelfMadeCertificateIsRenewed(t *testing.T) {
	now := time.Now()
	ips := []string{"192.0.2.1"}
	s := &selfSigned{
		dir: t.TempDir(), name: "node", ips: func() []string { return ips }, now: func() time.Time { return now },
	}
	get := func() *x509.Certificate {
		t.Helper()
		pair, err := s.get(t.Context())
		testutil.Must(t, err)
		return pair.Leaf
	}
	first := get()
	now = now.Add(certificateLife - renewLeft - time.Hour)
	testutil.Assert(t, get().Equal(first), "renewed early")
	now = now.Add(2 * time.Hour)
	second := get()
	testutil.Assert(t, !second.Equal(first) && !second.NotAfter.Before(now.Add(certificateLife-time.Minute)),
		"not renewed: until %v, now is %v", second.NotAfter, now)
	kept := s.load()
	testutil.Assert(t, kept != nil && kept.Leaf.Equal(second), "the renewed pair is not stored")
	ips = []string{"192.0.2.2"}
	testutil.Assert(t, get().IPAddresses[0].Equal(net.ParseIP(ips[0])), "the certificate keeps an earlier address")
	second = get()
	ips = []string{"127.0.0.1"}
	testutil.Assert(t, get().Equal(second), "replaced on a node without a network")
	// The server goes on if the directory cannot be written.
	s.dir = filepath.Join(s.dir, certificateName)
	now = now.Add(certificateLife)
	testutil.Assert(t, get().Equal(second), "without a writable directory the server does not keep its certificate")
}

func TestCertificateFilesAreReadAgain(t *testing.T) {
	issuer := newAuthority(t, "servers")
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(name string) {
		certificate, key := issuer.issue(name, nil)
		writeFile(t, certFile, certificate)
		writeFile(t, keyFile, key)
	}
	write("first")
	a := startAPI(t, &runtime{}, func(o *APIOptions) { o.CertFile, o.KeyFile = certFile, keyFile })
	testutil.Equal(t, served(t, a).Subject.CommonName, "first", "serves")
	write("the second")
	testutil.Equal(t, served(t, a).Subject.CommonName, "the second", "serves")
	writeFile(t, keyFile, []byte("broken"))
	testutil.Equal(t, served(t, a).Subject.CommonName, "the second", "serves with a broken key file")
}
