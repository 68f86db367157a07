// Package token gets service account tokens for pods, like the kubelet's token manager (pkg/kubelet/token). Each token
// is bound to its pod and becomes invalid with it. A cached token is replaced after four fifths of its life or 24
// hours, whichever is sooner.
package token

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/model"
)

const (
	// maxAge is the age at which a token is replaced, even if it is valid for longer.
	maxAge = 24 * time.Hour
	// maxJitter spreads the renewals of tokens of the same age.
	maxJitter = 10 * time.Second
	// defaultLife is the API server's default lifetime in seconds.
	defaultLife = int64(60 * 60)
	// defaultAccount is the service account of pods that name none.
	defaultAccount = "default"
)

// Options configure a Manager. ServiceAccounts is required.
type Options struct {
	// ServiceAccounts issues the tokens. It is a core client of the API server with a request timeout.
	ServiceAccounts corev1.ServiceAccountsGetter
}

// Manager keeps the tokens of pods in memory only. It is safe for concurrent use.
type Manager struct {
	opts Options
	now  func() time.Time

	mu     sync.Mutex
	tokens map[types.UID]map[request]issued
}

// request has the parameters of a token besides its pod.
type request struct {
	account, audience string
	life              int64 // in seconds
}

// issued is a token with the times of its renewal and expiry, which come from the API server's clock.
type issued struct {
	token        string
	renew, until time.Time
}

// New makes a manager without tokens.
func New(opts Options) *Manager {
	return &Manager{opts: opts, now: time.Now, tokens: map[types.UID]map[request]issued{}}
}

// Token returns a token for the pod's service account, bound to the pod, with the projection's audience and lifetime.
// It returns a cached token until four fifths of its life or 24 hours have passed, whichever is sooner. After that it
// returns the cached token only while it is valid and the API server issues no new one. The error is an
// errdefs.ErrInvalidArgument for a static pod, which the API server does not have. Errors of the API server are
// wrapped.
func (m *Manager) Token(
	ctx context.Context, pod *v1.Pod, projection *v1.ServiceAccountTokenProjection,
) (string, error) {
	if model.IsStatic(pod) {
		return "", fmt.Errorf("serviceAccountToken: a static pod has no service account: %w",
			errdefs.ErrInvalidArgument)
	}
	wanted := request{
		account: cmp.Or(pod.Spec.ServiceAccountName, defaultAccount), audience: projection.Audience,
		life: ptr.Deref(projection.ExpirationSeconds, defaultLife),
	}
	now := m.now()
	kept, ok := m.find(pod.UID, wanted)
	if ok && now.Before(kept.renew) {
		return kept.token, nil
	}
	fresh, err := m.issue(ctx, pod, wanted)
	if err == nil {
		m.keep(pod.UID, wanted, fresh)
		return fresh.token, nil
	}
	if ok && now.Before(kept.until) {
		log.G(ctx).WithError(err).
			WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "podUID": pod.UID, "until": kept.until}).
			Warn("service account token not renewed, the old one stays in use")
		return kept.token, nil
	}
	return "", err
}

func (m *Manager) find(uid types.UID, wanted request) (issued, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, ok := m.tokens[uid][wanted]
	return kept, ok
}

func (m *Manager) keep(uid types.UID, wanted request, fresh issued) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tokens[uid] == nil {
		m.tokens[uid] = map[request]issued{}
	}
	m.tokens[uid][wanted] = fresh
}

// issue requests a token from the API server.
func (m *Manager) issue(ctx context.Context, pod *v1.Pod, wanted request) (issued, error) {
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &wanted.life,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
			UID: pod.UID},
	}}
	if wanted.audience != "" { // empty means the API server's own
		ask.Spec.Audiences = []string{wanted.audience}
	}
	answer, err := m.opts.ServiceAccounts.ServiceAccounts(pod.Namespace).CreateToken(ctx, wanted.account, ask,
		metav1.CreateOptions{})
	if err != nil {
		return issued{}, fmt.Errorf("request a token of service account %q: %w", pod.Namespace+"/"+wanted.account, err)
	}
	if answer.Status.Token == "" {
		return issued{}, fmt.Errorf("request a token of service account %q: the API server's answer has no token: %w",
			pod.Namespace+"/"+wanted.account, errdefs.ErrInternal)
	}
	life := time.Duration(wanted.life) * time.Second
	if granted := answer.Spec.ExpirationSeconds; granted != nil { // the API server may grant another lifetime
		life = time.Duration(*granted) * time.Second
	}
	until := answer.Status.ExpirationTimestamp.Time
	return issued{token: answer.Status.Token, renew: renewal(until, life), until: until}, nil
}

// renewal returns the time at which a token with this expiry and lifetime must be replaced. A random part makes it up
// to maxJitter earlier.
func renewal(until time.Time, life time.Duration) time.Time {
	from := until.Add(-life)
	return from.Add(min(life*4/5, maxAge) - rand.N(min(maxJitter, life/10+1)))
}

// Forget drops the tokens of a pod.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tokens, uid)
}
