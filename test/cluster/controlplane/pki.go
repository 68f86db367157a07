package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// lifetime is the lifetime of all certificates. It is longer than any test, and begins in the past, so that clocks need
// not agree.
const lifetime = 24 * time.Hour

// Authority signs certificates for one cluster and writes them to a directory. Its methods must not be called
// concurrently.
type Authority struct {
	// CAFile is the authority's own certificate.
	CAFile string

	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// Pair is a certificate and its key, as files in PEM.
type Pair struct {
	CertFile, KeyFile string
}

// NewAuthority makes an authority whose files are in dir.
func NewAuthority(dir, name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-lifetime), NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &Authority{dir: dir, CAFile: filepath.Join(dir, name+".crt"), key: key, serial: 1}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, writePEM(a.CAFile, "CERTIFICATE", der)
}

// Client makes a certificate for a user in groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server makes a certificate for a server with host names and addresses.
func (a *Authority) Server(name string, hosts ...string) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.sign(template)
}

func (a *Authority) sign(template *x509.Certificate) (Pair, error) {
	a.serial++
	base := filepath.Join(a.dir, fmt.Sprintf("%s-%d", fileName(template.Subject.CommonName), a.serial))
	pair := Pair{CertFile: base + ".crt", KeyFile: base + ".key"}
	key, err := writeKey(pair.KeyFile)
	if err != nil {
		return pair, err
	}
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore, template.NotAfter = a.cert.NotBefore, a.cert.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair, err
	}
	return pair, writePEM(pair.CertFile, "CERTIFICATE", der)
}

// Kubeconfig writes a file with which a client reaches the server at url as a user. caFile has the authority that
// signed the server's certificate. The kubeconfig has the contents of all certificates. If it only named their files,
// clients would keep reading the files, and fail once they are gone.
func Kubeconfig(path, url, caFile string, user Pair) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: url, CertificateAuthority: caFile}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificate: user.CertFile, ClientKey: user.KeyFile}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, path)
}

// writeKey makes a private key and writes it to path.
func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(file, &pem.Block{Type: kind, Bytes: der}), file.Close())
}

// fileName makes a user's name ("system:node:a") fit for a file.
func fileName(user string) string {
	name := []rune(user)
	for i, letter := range name {
		if letter == ':' || letter == os.PathSeparator {
			name[i] = '-'
		}
	}
	return string(name)
}
