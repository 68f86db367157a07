package server

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/sirupsen/logrus"
)

// User is a client, as its certificate names it.
type User struct {
	// Name is the common name, Groups the organisations.
	Name   string
	Groups []string
}

// AllowNamed lets in users of these names and members of these groups.
func AllowNamed(names, groups []string) func(User) bool {
	return func(user User) bool {
		return slices.Contains(names, user.Name) || slices.ContainsFunc(user.Groups, func(group string) bool { return slices.Contains(groups, group) })
	}
}

// clients knows who asks.
type clients struct {
	authorities *fromFiles[*x509.CertPool]
	allow       func(User) bool
}

// newClients reads the certificates of those who sign clients' certificates.
func newClients(file string, allow func(User) bool) (*clients, error) {
	if file == "" {
		return nil, errors.New("the file with the certificates that sign those of clients is missing: without it nobody could be let in")
	}
	authorities, err := readFiles(func() (*x509.CertPool, error) {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("%s holds no certificate", file)
		}
		return pool, nil
	}, file)
	if err != nil {
		return nil, fmt.Errorf("certificates that sign those of clients: %w", err)
	}
	if allow == nil {
		allow = func(User) bool { return true }
	}
	return &clients{authorities: authorities, allow: allow}, nil
}

// guard answers 401 to those without a certificate and 403 to those who may not; the others it passes on. The certificate
// is judged with each request: a connection does not outlive it by much.
func (c *clients) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := c.identify(r)
		if err != nil {
			http.Error(w, "Unauthorized: "+err.Error(), http.StatusUnauthorized)
			return
		}
		if !c.allow(user) {
			logrus.WithFields(logrus.Fields{"user": user.Name, "groups": user.Groups, "path": r.URL.Path}).Warn("A client was turned away")
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, groups=%q): this kubelet was not told to let them in", user.Name, user.Groups), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// identify returns the user that a valid certificate names.
func (c *clients) identify(r *http.Request) (User, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return User{}, errors.New("a client certificate of the cluster is needed")
	}
	own, between := r.TLS.PeerCertificates[0], x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err := own.Verify(x509.VerifyOptions{
		Roots: c.authorities.get(), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return User{}, fmt.Errorf("the client certificate is not valid here: %w", err)
	}
	return User{Name: own.Subject.CommonName, Groups: own.Subject.Organization}, nil
}
