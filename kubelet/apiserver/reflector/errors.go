package reflector

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errorReporter reports errors when their kind changes. It does not compare texts: two failed dials differ in the port.
// It is safe for concurrent use, because an abandoned list may still answer.
type errorReporter struct {
	report func(error)

	mu   sync.Mutex
	kind string // of the last problem, or empty
}

func (r *errorReporter) failed(err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // a new list follows and continues the watch
	}
	kind, err := explain(err)
	r.change(kind, err)
}

func (r *errorReporter) succeeded() { r.change("", nil) }

func (r *errorReporter) change(kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind == r.kind {
		return
	}
	r.kind = kind
	if r.report != nil {
		r.report(err)
	}
}

// explain returns the kind of failure. If the failure does not pass by itself, the error says how to fix it.
func explain(err error) (kind string, explained error) {
	var certificate *tls.CertificateVerificationError
	var hostname x509.HostnameError
	switch {
	case errors.As(err, &hostname):
		return "certificate", fmt.Errorf(
			"the server's certificate is for another name than the kubeconfig's address: %w", err)
	case errors.As(err, &certificate):
		return "certificate", fmt.Errorf(
			"the server's certificate is not valid under the kubeconfig's certificate-authority: %w", err)
	}
	switch reason := apierrors.ReasonForError(err); reason {
	case metav1.StatusReasonUnknown:
		return "away", fmt.Errorf("the server cannot be reached or understood: %w", err)
	case metav1.StatusReasonUnauthorized:
		return string(reason), fmt.Errorf("the server does not accept the kubeconfig's credentials: %w", err)
	case metav1.StatusReasonForbidden:
		return string(reason), fmt.Errorf("the server denies the request to the kubeconfig's user: %w", err)
	default:
		return string(reason), err
	}
}
