package controlplane

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCertificatesServeTheirPurposeOnly(t *testing.T) {
	authority, err := NewAuthority(t.TempDir(), "ca")
	testutil.Must(t, err)
	client, err := authority.Client("system:node:a", "system:nodes")
	testutil.Must(t, err)
	server, err := authority.Server("a", "a.example", "192.0.2.1")
	testutil.Must(t, err)
	pem, err := os.ReadFile(authority.CAFile)
	testutil.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for name, test := range map[string]struct {
		pair Pair
		opts x509.VerifyOptions
		ok   bool
	}{
		"client": {client,
			x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true},
		"server by name":    {server, x509.VerifyOptions{Roots: roots, DNSName: "a.example"}, true},
		"server by address": {server, x509.VerifyOptions{Roots: roots, DNSName: "192.0.2.1"}, true},
		"another name":      {server, x509.VerifyOptions{Roots: roots, DNSName: "b.example"}, false},
		"client as server":  {client, x509.VerifyOptions{Roots: roots}, false},
		"server as client": {server,
			x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, false},
		"other authority": {server, x509.VerifyOptions{Roots: x509.NewCertPool()}, false},
	} {
		pair, err := tls.LoadX509KeyPair(test.pair.CertFile, test.pair.KeyFile)
		testutil.Must(t, err)
		_, err = pair.Leaf.Verify(test.opts)
		testutil.Assert(t, (err == nil) == test.ok, "%s: %v", name, err)
	}
	leaf, err := tls.LoadX509KeyPair(client.CertFile, client.KeyFile)
	testutil.Must(t, err)
	if subject := leaf.Leaf.Subject; subject.CommonName != "system:node:a" || len(subject.Organization) != 1 ||
		subject.Organization[0] != "system:nodes" {
		t.Errorf("subject %v", subject)
	}
}

func TestKubeconfigHoldsTheCertificates(t *testing.T) {
	dir := t.TempDir()
	authority, err := NewAuthority(dir, "ca")
	testutil.Must(t, err)
	user, err := authority.Client("admin", "system:masters")
	testutil.Must(t, err)
	path := filepath.Join(dir, "kubeconfig")
	testutil.Must(t, Kubeconfig(path, "https://192.0.2.1:6443", authority.CAFile, user))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	testutil.Must(t, err)
	if config.Host != "https://192.0.2.1:6443" || config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
		t.Errorf("%v", config)
	}
	for file, held := range map[string][]byte{authority.CAFile: config.CAData, user.CertFile: config.CertData,
		user.KeyFile: config.KeyData} {
		if want, err := os.ReadFile(file); err != nil || !bytes.Equal(held, want) {
			t.Errorf("%s is not in the kubeconfig, %v", filepath.Base(file), err)
		}
	}
}
