package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// certificates gives the certificate that a connection is served with.
type certificates func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// servingCertificates are those of the files, read again when they are renewed, or self-made ones.
func servingCertificates(opts APIOptions) (certificates, error) {
	switch {
	case (opts.CertFile == "") != (opts.KeyFile == ""):
		return nil, errors.New("serving over TLS needs both a certificate and its key")
	case opts.CertFile != "":
		pair, err := readFiles(func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(opts.CertFile, opts.KeyFile)
			return &pair, err
		}, opts.CertFile, opts.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("serving certificate: %w", err)
		}
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get(), nil }, nil
	case opts.CertDir == "":
		return nil, errors.New("serving over TLS needs a certificate and its key, or a folder to keep self-made ones in")
	}
	made := &selfMade{dir: opts.CertDir, name: opts.NodeName, ips: opts.IPs, now: time.Now}
	if _, err := made.get(nil); err != nil {
		return nil, err
	}
	return made.get, nil
}
