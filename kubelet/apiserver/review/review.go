// Package review authenticates and authorizes clients by TokenReview and SubjectAccessReview. This is the kubelet's
// webhook mode for clients of its API. k8s.io/apiserver/pkg/authentication and authorization would bring the
// dependencies of an API server.
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
	// tokenTTL, allowedTTL and deniedTTL are the lifetimes of cached answers. They are the kubelet's cacheTTL,
	// cacheAuthorizedTTL and cacheUnauthorizedTTL. invalidTTL is the lifetime for an invalid token, which may become
	// valid.
	tokenTTL   = 2 * time.Minute
	invalidTTL = 5 * time.Second
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// cached is the number of cached answers of each kind.
	cached = 4096
	// timeout bounds a review, including the wait for the client's own rate limit, which the client's Timeout does not
	// bound.
	timeout = 10 * time.Second
	// concurrent is the limit of parallel reviews of each kind.
	concurrent = 16
)

// Reviewer asks the API server and caches its answers. It is safe for concurrent use.
type Reviewer struct {
	tokens authentication.TokenReviewInterface
	access authorization.SubjectAccessReviewInterface
	// users and invalid are keyed by the token's hash, rights by the question as JSON. Invalid tokens have their own
	// cache, so that many invalid tokens do not displace valid ones.
	users, invalid, rights *cache.LRUExpireCache
	// tokenReviews and accessReviews have an entry for each running review.
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
		users: cache.NewLRUExpireCache(cached), invalid: cache.NewLRUExpireCache(cached),
		rights:       cache.NewLRUExpireCache(cached),
		tokenReviews: make(chan struct{}, concurrent), accessReviews: make(chan struct{}, concurrent),
	}
}

// bounded makes a review within the timeout. If too many reviews are running, the error suggests when to retry
// (SuggestsClientDelay of k8s.io/apimachinery/pkg/api/errors).
func bounded[T any](
	ctx context.Context, reviews chan struct{}, create func(context.Context) (T, error),
) (answer T, err error) {
	select {
	case reviews <- struct{}{}:
		defer func() { <-reviews }()
	default:
		return answer, apierrors.NewTooManyRequests("too many reviews are running", 1)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return create(ctx)
}

// Token returns the user of a bearer token. Valid is false for an unknown token. An error may suggest when to retry
// (SuggestsClientDelay of k8s.io/apimachinery/pkg/api/errors).
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

// Access reports whether the user has the right in question, and why. Its errors are like Token's.
func (r *Reviewer) Access(
	ctx context.Context, question authorizationv1.SubjectAccessReviewSpec,
) (allowed bool, reason string, err error) {
	key, err := json.Marshal(question)
	if err != nil {
		return false, "", err
	}
	if known, ok := r.rights.Get(string(key)); ok {
		return known.(right).allowed, known.(right).reason, nil
	}
	answer, err := bounded(ctx, r.accessReviews,
		func(ctx context.Context) (*authorizationv1.SubjectAccessReview, error) {
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
