package nodeapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/google/renameio/v2"
)

const (
	// certificateLife is the lifetime of a self-signed certificate. It is renewed when renewLeft is left.
	certificateLife = 365 * 24 * time.Hour
	renewLeft       = certificateLife / 5
	// clockSkew is how far a client's clock may be behind.
	clockSkew = 5 * time.Minute
	// Files of the pair, with the kubelet's names.
	certificateName, keyName = "kubelet.crt", "kubelet.key"
)

// selfSigned keeps a self-signed certificate in a directory. It is for a cluster whose API server does not check
// kubelets' certificates, or trusts this certificate. It is safe for concurrent use.
type selfSigned struct {
	dir, name string
	ips       func() []string
	now       func() time.Time

	mu   sync.Mutex
	pair *tls.Certificate
}

// get returns the certificate. It renews the certificate in time, and after a change of the addresses. Each connection
// calls it.
func (s *selfSigned) get(ctx context.Context) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pair == nil {
		s.pair = s.load()
	}
	if s.good(s.pair) {
		return s.pair, nil
	}
	pair, err := s.renew(ctx)
	if err != nil {
		if s.pair != nil {
			log.G(ctx).WithError(err).Error("cannot renew the serving certificate")
			return s.pair, nil
		}
		return nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	s.pair = pair
	return pair, nil
}

// load reads the pair. It returns nil for an unusable pair, for example after a crash between the writes of the two
// files. get then replaces the pair.
func (s *selfSigned) load() *tls.Certificate {
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.dir, certificateName), filepath.Join(s.dir, keyName))
	if err != nil {
		return nil
	}
	return &pair
}

// good reports whether the certificate names this node and its addresses, and stays valid for at least renewLeft.
// Loopback addresses do not count: a node without a network has no other address, and keeps its certificate.
func (s *selfSigned) good(pair *tls.Certificate) bool {
	if pair == nil || pair.Leaf.NotAfter.Sub(s.now()) < renewLeft || !slices.Contains(pair.Leaf.DNSNames, s.name) {
		return false
	}
	return !slices.ContainsFunc(s.ips(), func(text string) bool {
		ip := net.ParseIP(text)
		return !ip.IsLoopback() && !slices.ContainsFunc(pair.Leaf.IPAddresses, ip.Equal)
	})
}

// renew makes a pair and stores it, the key first. After a crash in between, load refuses the pair.
func (s *selfSigned) renew(ctx context.Context) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate, err := s.sign(key)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	certificatePEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return nil, err
	}
	if err := renameio.WriteFile(filepath.Join(s.dir, keyName), keyPEM, 0o600, renameio.IgnoreUmask()); err != nil {
		return nil, err
	}
	if err := renameio.WriteFile(filepath.Join(s.dir, certificateName), certificatePEM, 0o644); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificatePEM, keyPEM)
	if err != nil {
		return nil, err
	}
	log.G(ctx).WithFields(log.Fields{"directory": s.dir, "notAfter": pair.Leaf.NotAfter}).
		Info("made a self-signed serving certificate")
	return &pair, nil
}

func (s *selfSigned) sign(key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := s.now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: s.name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: []string{s.name},
	}
	for _, text := range s.ips() {
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, fmt.Errorf("%q is not an IP address", text)
		}
		template.IPAddresses = append(template.IPAddresses, ip)
	}
	return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
}
