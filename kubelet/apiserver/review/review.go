// Package review asks the API server who a client is and what it may do, by TokenReview and SubjectAccessReview: the
// kubelet's webhook mode for the clients of its API (k8s.io/apiserver/pkg/authentication and authorization, which would
// bring an API server's weight with them).
package review

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

const (
	// tokenTTL, allowedTTL and deniedTTL are how long an answer counts, the kubelet's cacheTTL, cacheAuthorizedTTL and
	// cacheUnauthorizedTTL. invalidTTL is how long a token counts as not valid: it may become valid.
	tokenTTL   = 2 * time.Minute
	invalidTTL = 5 * time.Second
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// cached is how many answers of each kind are kept.
	cached = 4096
	// timeout bounds a review, the wait for the client's own rate limit included, which its Timeout does not bound.
	timeout = 10 * time.Second
	// concurrent is how many reviews of each kind may go on at once.
	concurrent = 16
)

// Reviewer asks the API server, and keeps its answers for a while. It is safe for concurrent use.
type Reviewer struct {
	tokens authentication.TokenReviewInterface
	access authorization.SubjectAccessReviewInterface
	// users are by the token's hash, and so is what is known of tokens that are not valid: those of strangers must not
	// displace the others. rights are by the question as JSON.
	users, invalid, rights *cache.LRUExpireCache
	// tokenReviews and accessReviews hold the reviews that go on.
	tokenReviews, accessReviews chan struct{}
}

// right is an answer to a SubjectAccessReview.
type right struct {
	allowed bool
	reason  string
}

// New makes a Reviewer.
func New(tokens authentication.TokenReviewsGetter, access authorization.SubjectAccessReviewsGetter) *Reviewer {
	return &Reviewer{
		tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(),
		users: cache.NewLRUExpireCache(cached), invalid: cache.NewLRUExpireCache(cached), rights: cache.NewLRUExpireCache(cached),
		tokenReviews: make(chan struct{}, concurrent), accessReviews: make(chan struct{}, concurrent),
	}
}

// bounded makes a review within the timeout, unless as many as may are going on: then the error says after how many
// seconds to ask again (SuggestsClientDelay of k8s.io/apimachinery/pkg/api/errors).
func bounded[T any](ctx context.Context, reviews chan struct{}, create func(context.Context) (T, error)) (answer T, err error) {
	select {
	case reviews <- struct{}{}:
		defer func() { <-reviews }()
	default:
		return answer, apierrors.NewTooManyRequests("too many reviews are going on", 1)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return create(ctx)
}

// Token says whose a bearer token is; valid is false for one that is nobody's. An error may say after how many
// seconds to ask again (SuggestsClientDelay of k8s.io/apimachinery/pkg/api/errors).
func (r *Reviewer) Token(ctx context.Context, token string) (user authenticationv1.UserInfo, valid bool, err error) {
	key := sha256.Sum256([]byte(token))
	if known, ok := r.users.Get(key); ok {
		return known.(authenticationv1.UserInfo), true, nil
	}
	if _, ok := r.invalid.Get(key); ok {
		return authenticationv1.UserInfo{}, false, nil
	}
	answer, err := bounded(ctx, r.tokenReviews, func(ctx context.Context) (*authenticationv1.TokenReview, error) {
		question := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		return r.tokens.Create(ctx, question, metav1.CreateOptions{})
	})
	if err != nil {
		return authenticationv1.UserInfo{}, false, fmt.Errorf("token review: %w", err)
	}
	if !answer.Status.Authenticated {
		r.invalid.Add(key, nil, invalidTTL)
		return authenticationv1.UserInfo{}, false, nil
	}
	r.users.Add(key, answer.Status.User, tokenTTL)
	return answer.Status.User, true, nil
}

// Access says whether the user may do what the question names, and why. Its errors are like Token's.
func (r *Reviewer) Access(ctx context.Context, question authorizationv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error) {
	key, err := json.Marshal(question)
	if err != nil {
		return false, "", err
	}
	if known, ok := r.rights.Get(string(key)); ok {
		return known.(right).allowed, known.(right).reason, nil
	}
	answer, err := bounded(ctx, r.accessReviews, func(ctx context.Context) (*authorizationv1.SubjectAccessReview, error) {
		return r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: question}, metav1.CreateOptions{})
	})
	if err != nil {
		return false, "", fmt.Errorf("subject access review: %w", err)
	}
	ttl := deniedTTL
	if answer.Status.Allowed {
		ttl = allowedTTL
	}
	r.rights.Add(string(key), right{answer.Status.Allowed, answer.Status.Reason}, ttl)
	return answer.Status.Allowed, answer.Status.Reason, nil
}
