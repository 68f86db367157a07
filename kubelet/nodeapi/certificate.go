package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// certificates returns the serving certificate of a connection.
type certificates func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// servingCertificates returns the certificate of the files, which is read again after a renewal. Without files it
// returns a self-signed certificate.
func servingCertificates(opts APIOptions) (certificates, error) {
	switch {
	case (opts.CertFile == "") != (opts.KeyFile == ""):
		return nil, errors.New("serving over TLS needs both a certificate and its key")
	case opts.CertFile != "":
		pair, err := newReloader(func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(opts.CertFile, opts.KeyFile)
			return &pair, err
		}, opts.CertFile, opts.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("serving certificate: %w", err)
		}
		return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get(hello.Context()), nil }, nil
	case opts.CertDir == "":
		return nil, errors.New(
			"serving over TLS needs a certificate and its key, or a directory to keep self-signed ones in")
	}
	if opts.IPs == nil {
		opts.IPs = func() []string { return nil }
	}
	signed := &selfSigned{dir: opts.CertDir, name: opts.NodeName, ips: opts.IPs, now: time.Now}
	if _, err := signed.get(context.Background()); err != nil { // making a certificate is quick
		return nil, err
	}
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return signed.get(hello.Context()) }, nil
}
