package streaming

import (
	"crypto/tls"
	"fmt"

	"github.com/containerd/errdefs"
)

// tlsConfig returns nil without a certificate. It reads the files now, so that invalid ones fail the start. It reads
// them again for each connection, so that renewed ones take effect.
func tlsConfig(certFile, keyFile string) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, fmt.Errorf("streaming over TLS needs both a certificate and its key: %w",
			errdefs.ErrInvalidArgument)
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("loading the certificate for streaming: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() },
	}, nil
}
