package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// limited is a transport that bounds answers, and uses HTTP without TLS only for loopback addresses.
type limited struct {
	http.RoundTripper
	// maxAnswer is the bound in bytes, 0 for none.
	maxAnswer int64
}

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	if host := request.URL.Hostname(); request.URL.Scheme != "https" && !loopback(host) {
		return nil, fmt.Errorf("%s: criadapter speaks HTTP without TLS only to loopback addresses", host)
	}
	response, err := l.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, explain(err)
	}
	if l.maxAnswer > 0 {
		response.Body = http.MaxBytesReader(nil, response.Body, l.maxAnswer)
	}
	return response, nil
}

// explain adds the remedy to the error about a certificate, if this system has no CA certificates at all.
// criadapter's image has none: its container gets the node's certificates, which the engine trusts, too.
func explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var none x509.SystemRootsError
	if !errors.As(err, &unknown) && !errors.As(err, &none) {
		return err
	}
	if roots, failure := x509.SystemCertPool(); failure == nil && !roots.Equal(x509.NewCertPool()) {
		return err
	}
	return fmt.Errorf("%w: there are no CA certificates here: give criadapter's container the node's, "+
		"such as /etc/ssl/certs", err)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// newTransport returns a transport with the registry's certificates in a directory as Docker Engine reads it: *.crt are
// authorities, NAME.cert with NAME.key are certificates of the client. The directory need not exist.
func newTransport(dir string, maxAnswer int64) (http.RoundTripper, error) {
	config := &tls.Config{}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		switch base, isCert := strings.CutSuffix(path, ".cert"); {
		case isCert:
			pair, err := tls.LoadX509KeyPair(path, base+".key")
			if err != nil {
				return nil, err
			}
			config.Certificates = append(config.Certificates, pair)
		case filepath.Ext(path) == ".crt":
			if err := addAuthority(config, path); err != nil {
				return nil, err
			}
		}
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = config
	// Each repository has its own transport. With keep-alives, it would leave idle connections open.
	base.DisableKeepAlives = true
	return limited{base, maxAnswer}, nil
}

func addAuthority(config *tls.Config, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if config.RootCAs == nil {
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			return err
		}
	}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate as PEM", path)
	}
	return nil
}
