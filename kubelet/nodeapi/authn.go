package nodeapi

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// authenticatedGroup is the group of all authenticated clients.
const authenticatedGroup = "system:authenticated"

// Reviewer asks an API server about clients. review.Reviewer implements it.
type Reviewer interface {
	// Token returns the user of a bearer token. Valid is false for an unknown token. An error of either method may
	// suggest when to retry (SuggestsClientDelay of k8s.io/apimachinery/pkg/api/errors).
	Token(ctx context.Context, token string) (user authenticationv1.UserInfo, valid bool, err error)
	// Access reports whether a user has the right in question, and why.
	Access(ctx context.Context,
		question authorizationv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error)
}

// authenticator authenticates clients by certificate, or by token if it has a reviewer.
type authenticator struct {
	authorities *reloader[*x509.CertPool]
	reviewer    Reviewer // nil for none
}

// newAuthenticator reads the client CA file.
func newAuthenticator(opts APIOptions) (*authenticator, error) {
	file := opts.ClientCAFile
	if file == "" {
		return nil, errors.New("a client CA file is required: without it no client could be authenticated")
	}
	authorities, err := newReloader(func() (*x509.CertPool, error) {
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
		return nil, fmt.Errorf("client CA file: %w", err)
	}
	return &authenticator{authorities: authorities, reviewer: opts.Reviewer}, nil
}

// errNotReviewed marks the error for a token that the API server could not review. The error also wraps the cause,
// which clients do not see.
var errNotReviewed = errors.New("the API server cannot be asked about the token")

// identify returns the user of a valid certificate or token. The error wraps errNotReviewed if the API server could not
// review the token.
func (a *authenticator) identify(r *http.Request) (authenticationv1.UserInfo, error) {
	user, err := a.byCertificate(r)
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if err == nil || !ok || a.reviewer == nil {
		return user, err
	}
	user, valid, err := a.reviewer.Token(r.Context(), strings.TrimSpace(token))
	switch {
	case err != nil:
		return user, fmt.Errorf("%w: %w", errNotReviewed, err)
	case !valid:
		return user, errors.New("the token is not valid here")
	default:
		return user, nil
	}
}

// byCertificate returns the user of a valid certificate: the common name, with the organizations as groups.
func (a *authenticator) byCertificate(r *http.Request) (authenticationv1.UserInfo, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return authenticationv1.UserInfo{}, errors.New("a client certificate of the cluster is needed")
	}
	own, between := r.TLS.PeerCertificates[0], x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err := own.Verify(x509.VerifyOptions{
		Roots: a.authorities.get(r.Context()), Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("the client certificate is not valid here: %w", err)
	}
	if own.Subject.CommonName == "" {
		return authenticationv1.UserInfo{}, errors.New("the client certificate has no common name")
	}
	return authenticationv1.UserInfo{
		Username: own.Subject.CommonName, Groups: append(own.Subject.Organization, authenticatedGroup),
	}, nil
}
