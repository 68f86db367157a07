package nodeapi

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// paths has all paths of the API with their methods.
var paths = []struct{ method, path string }{
	{"GET", "/healthz"}, {"GET", "/pods"}, {"GET", "/pods/"}, {"GET", "/runningpods/"}, {"GET", "/configz"},
	{"GET", "/stats/summary"}, {"GET", "/metrics"},
	{"GET", "/metrics/cadvisor"}, {"GET", "/metrics/resource"}, {"GET", "/metrics/probes"},
	{"GET", "/containerLogs/ns/pod/c"},
	{"POST", "/exec/ns/pod/c"}, {"GET", "/exec/ns/pod/u/c"}, {"POST", "/attach/ns/pod/c"},
	{"POST", "/portForward/ns/pod"},
	{"POST", "/portForward/ns/pod/u"}, {"POST", "/run/ns/pod/c"}, {"POST", "/run/ns/pod/u/c"}, {"GET", "/nothing"},
}

func TestClientCertificates(t *testing.T) {
	a := startAPI(t, &runtime{}, func(o *APIOptions) {
		o.Users, o.Groups = []string{"kube-apiserver"}, []string{"monitoring"}
	})
	strangers := newAuthority(t, "strangers")
	for _, c := range []struct {
		name string
		sign *authority
		user string
		edit func(*x509.Certificate)
		code int
	}{
		{"no certificate", nil, "", nil, http.StatusUnauthorized},
		{"a stranger's", strangers, "kube-apiserver", nil, http.StatusUnauthorized},
		{"too old", a.authority, "kube-apiserver", func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Second)
		}, http.StatusUnauthorized},
		{"of a server", a.authority, "kube-apiserver", func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}, http.StatusUnauthorized},
		{"without a common name", a.authority, "", func(c *x509.Certificate) {
			c.Subject.Organization = []string{"monitoring"}
		}, http.StatusUnauthorized},
		{"somebody else", a.authority, "somebody", nil, http.StatusForbidden},
		{"by name", a.authority, "kube-apiserver", nil, 0},
		{"by group", a.authority, "prometheus", func(c *x509.Certificate) {
			c.Subject.Organization = []string{"other", "monitoring"}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var certificate, key []byte
			if c.sign != nil {
				certificate, key = c.sign.issue(c.user, c.edit)
			}
			client := a.clientWith(certificate, key)
			for _, p := range paths {
				code, body := a.do(client, p.method, p.path)
				refused := code == http.StatusUnauthorized || code == http.StatusForbidden
				testutil.Assert(t, code == c.code || c.code == 0 && !refused,
					"%s: %d %s, want %d", p.path, code, body, c.code)
				testutil.Assert(t, c.code != http.StatusForbidden || strings.Contains(body, "user=somebody"),
					"%s: %s", p.path, body)
			}
		})
	}
	// The authority's certificate is replaced, which takes effect with the next request of an open connection.
	code, _ := a.get("/healthz")
	testutil.Require(t, code == http.StatusOK, "before: %d", code)
	content, err := os.ReadFile(strangers.file)
	testutil.Must(t, err)
	writeFile(t, a.authority.file, content)
	code, _ = a.get("/healthz")
	testutil.Assert(t, code == http.StatusUnauthorized, "signed by the old authority: %d", code)
	client := a.clientWith(strangers.issue("kube-apiserver", nil))
	code, _ = a.do(client, http.MethodGet, "/healthz")
	testutil.Assert(t, code == http.StatusOK, "signed by the new authority: %d", code)
	writeFile(t, a.authority.file, []byte("half a certif"))
	code, _ = a.do(client, http.MethodGet, "/healthz")
	testutil.Assert(t, code == http.StatusOK, "while the file is bad: %d", code)
}

func TestOldTLSIsRefused(t *testing.T) {
	a := startAPI(t, &runtime{}, nil)
	conn, err := tls.Dial("tcp", a.Address(),
		&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	if err == nil {
		conn.Close()
		t.Error("TLS 1.1 is served")
	}
	if answer, err := http.Get("http://" + a.Address() + "/healthz"); err == nil {
		defer answer.Body.Close()
		testutil.Assert(t, answer.StatusCode == http.StatusBadRequest, "without TLS: %d", answer.StatusCode)
	}
}

func TestListenTLSRefuses(t *testing.T) {
	good := newAuthority(t, "clients")
	empty := filepath.Join(t.TempDir(), "empty")
	writeFile(t, empty, nil)
	for name, edit := range map[string]func(*APIOptions){
		"no authority":               func(o *APIOptions) { o.ClientCAFile = "" },
		"an authority not there":     func(o *APIOptions) { o.ClientCAFile = empty + "x" },
		"an authority without any":   func(o *APIOptions) { o.ClientCAFile = empty },
		"a certificate, no key":      func(o *APIOptions) { o.CertFile = good.file },
		"no pair":                    func(o *APIOptions) { o.CertFile, o.KeyFile = good.file, empty },
		"nowhere for a pair":         func(o *APIOptions) { o.CertDir = "" },
		"a directory that is a file": func(o *APIOptions) { o.CertDir = empty },
		"no IP":                      func(o *APIOptions) { o.IPs = fixedIPs("localhost") },
		"no address":                 func(o *APIOptions) { o.Address = "nonsense" },
	} {
		opts := APIOptions{Address: "127.0.0.1:0", CertDir: t.TempDir(), NodeName: "node", ClientCAFile: good.file,
			Runtime: &runtime{}}
		edit(&opts)
		if s, err := ListenTLS(opts); err == nil {
			s.listener.Close()
			t.Errorf("%s: no error", name)
		} else if !strings.HasPrefix(err.Error(), "kubelet's API: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
