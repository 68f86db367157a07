package reflector

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/criadapter/criadapter/internal/testutil"
)

var pods = schema.GroupResource{Resource: "pods"}

// TestErrorReporter: each kind of error is reported once, and so is its end.
func TestErrorReporter(t *testing.T) {
	get := func(err error) error { return &url.Error{Op: "Get", URL: "https://node:1", Err: err} }
	unknown := get(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})
	var reported []string
	r := errorReporter{report: func(err error) { reported = append(reported, fmt.Sprint(err)) }}
	for _, step := range []struct {
		name string
		err  error
		want string // part of the report; empty for none
	}{
		{"working", nil, ""},
		{"refused", get(fmt.Errorf("port 1: %w", syscall.ECONNREFUSED)), "cannot be reached or understood"},
		{"refused again", get(fmt.Errorf("port 2: %w", syscall.ECONNREFUSED)), ""},
		{"forgotten", apierrors.NewResourceExpired("old"), ""},
		{"gone", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone}}, ""},
		{"certificate", unknown, "not valid under the kubeconfig's certificate-authority"},
		{"certificate again", unknown, ""},
		{"user unknown", apierrors.NewUnauthorized("who"), "does not accept the kubeconfig's credentials"},
		{"certificate once more",
			get(
				&tls.CertificateVerificationError{
					Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}}), "for another name"},
		{"forbidden", apierrors.NewForbidden(pods, "", errors.New("no")),
			"denies the request to the kubeconfig's user"},
		{"working again", nil, "<nil>"},
		{"still", nil, ""},
	} {
		reported = nil
		if step.err == nil {
			r.succeeded()
		} else {
			r.failed(step.err)
		}
		got := strings.Join(reported, " and ")
		testutil.Assert(t, (got == "") == (step.want == "") && strings.Contains(got, step.want),
			"%s: reported %q, want %q", step.name, got, step.want)
	}
}

// silent is a client of a server that never answers.
type silent struct{}

func (silent) List(ctx context.Context, _ metav1.ListOptions) (*v1.PodList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// nothing is a Store that must stay empty.
type nothing struct{ t *testing.T }

func (n nothing) Replace([]*v1.Pod) { n.t.Error("replaced by a server that is silent") }
func (n nothing) Set(*v1.Pod)       { n.t.Error("set by a server that is silent") }
func (n nothing) Delete(*v1.Pod)    { n.t.Error("deleted by a server that is silent") }

// TestSilentServer: a list without an answer is abandoned and reported once. Run ends at once with its context.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*listTimeout)
		defer cancel()
		var reported []error
		Run(ctx, silent{},
			Options[*v1.Pod]{Store: nothing{t}, Problem: func(err error) { reported = append(reported, err) }})
		testutil.Assert(t, len(reported) == 1 && strings.Contains(reported[0].Error(), "no answer in"),
			"reported %v", reported)
	})
}

// TestRetry: the default pauses are the kubelet's.
func TestRetry(t *testing.T) {
	b := (Retry{}).backoff()
	testutil.Assert(t, b.Duration.Milliseconds() == 800 && b.Cap.Seconds() == 30 && b.Factor == 2 && b.Jitter == 1 &&
		b.Steps >= 6, "pauses %+v", b)
}
