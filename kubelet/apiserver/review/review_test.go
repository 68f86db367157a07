package review

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/criadapter/criadapter/internal/testutil"
)

// server accepts the token "good" of the user ann, who may get everything, and counts the requests.
type server struct {
	*Reviewer
	asked atomic.Int32
	away  atomic.Bool
	// hold is locked to delay all answers.
	hold sync.RWMutex
}

// clock is a settable clock.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// start starts a server. Its client may send burst requests before its rate limit blocks it; 0 means no limit.
func start(t *testing.T, burst int) *server {
	t.Helper()
	s := &server{}
	web := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(web.Close)
	config := &rest.Config{Host: web.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1}
	if burst > 0 {
		config.QPS, config.Burst = 0.001, burst
	}
	tokens, err := authentication.NewForConfig(config)
	testutil.Must(t, err)
	access, err := authorization.NewForConfig(config)
	testutil.Must(t, err)
	s.Reviewer = New(tokens, access)
	return s
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	s.hold.RLock()
	defer s.hold.RUnlock()
	if s.away.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.Authenticated = review.Spec.Token == "good"
		review.Status.User.Username = "ann"
		_ = json.NewEncoder(w).Encode(review)
		return
	}
	var review authorizationv1.SubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	review.Status.Allowed = review.Spec.User == "ann" && review.Spec.ResourceAttributes.Verb == "get"
	review.Status.Reason = "because"
	_ = json.NewEncoder(w).Encode(review)
}

// wantAsked compares the number of requests since the last call.
func (s *server) wantAsked(t *testing.T, want int32) {
	t.Helper()
	testutil.Equal(t, s.asked.Swap(0), want, "requests since the last call")
}

func TestToken(t *testing.T) {
	s := start(t, 0)
	now := &clock{time.Now()}
	s.invalid = cache.NewLRUExpireCacheWithClock(cached, now)
	for range 3 {
		user, valid, err := s.Token(t.Context(), "good")
		testutil.Assert(t, err == nil && valid && user.Username == "ann", "good: %v, %v, %v", user, valid, err)
	}
	s.wantAsked(t, 1)
	for range 2 {
		_, valid, err := s.Token(t.Context(), "bad")
		testutil.Assert(t, err == nil && !valid, "bad: %v, %v", valid, err)
	}
	s.wantAsked(t, 1)
	now.now = now.now.Add(invalidTTL + time.Second) // after invalidTTL the token may have become valid
	_, valid, err := s.Token(t.Context(), "bad")
	testutil.Assert(t, err == nil && !valid, "bad, later: %v, %v", valid, err)
	s.wantAsked(t, 1)
	s.away.Store(true)
	_, valid, err = s.Token(t.Context(), "good")
	testutil.Assert(t, err == nil && valid, "a cached token while the server is away: %v, %v", valid, err)
	_, valid, err = s.Token(t.Context(), "new")
	testutil.Assert(t, err != nil && !valid, "a new token while the server is away: %v, %v", valid, err)
}

// question asks whether the user has a right.
func question(user, verb string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb}}
}

// TestRateLimit: the wait for the client's own rate limit is bounded, too.
func TestRateLimit(t *testing.T) {
	s := start(t, 1)
	_, _, err := s.Token(t.Context(), "bad")
	testutil.Must(t, err)
	_, _, err = s.Access(t.Context(), question("bob", "get"))
	testutil.Must(t, err)
	answered := make(chan error, 2)
	go func() {
		_, _, err := s.Token(t.Context(), "good")
		answered <- err
	}()
	go func() {
		_, _, err := s.Access(t.Context(), question("ann", "get"))
		answered <- err
	}()
	for range 2 {
		select {
		case err := <-answered:
			testutil.Assert(t, err != nil, "a review above the rate limit succeeded")
		case <-time.After(timeout + 5*time.Second):
			t.Fatal("a review waits longer than its timeout")
		}
	}
}

// TestTooMany: reviews above the limit are refused. Cached answers are still given.
func TestTooMany(t *testing.T) {
	s := start(t, 0)
	_, valid, err := s.Token(t.Context(), "good")
	testutil.Require(t, err == nil && valid, "good: %v, %v", valid, err)
	s.asked.Store(0)
	s.hold.Lock()
	var waiting sync.WaitGroup
	for i := range concurrent {
		waiting.Go(func() {
			_, valid, err := s.Token(t.Context(), fmt.Sprint("bad", i))
			testutil.Assert(t, err == nil && !valid, "a review that waited: %v, %v", valid, err)
		})
		waiting.Go(func() {
			_, _, err := s.Access(t.Context(), question("ann", fmt.Sprint("verb", i)))
			testutil.Assert(t, err == nil, "a review that waited: %v", err)
		})
	}
	testutil.Until(t, "all reviews wait for the server", func() bool { return s.asked.Load() >= 2*concurrent })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _, tokenErr := s.Token(ctx, "one more")
	_, _, accessErr := s.Access(ctx, question("ann", "one more"))
	for _, err := range []error{tokenErr, accessErr} {
		seconds, ok := apierrors.SuggestsClientDelay(err)
		testutil.Assert(t, ok && seconds >= 1, "one more: %v", err)
	}
	_, valid, err = s.Token(ctx, "good")
	testutil.Assert(t, err == nil && valid, "known: %v, %v", valid, err)
	s.hold.Unlock()
	waiting.Wait()
	_, valid, err = s.Token(t.Context(), "one more")
	testutil.Assert(t, err == nil && !valid, "afterwards: %v, %v", valid, err)
}

func TestAccess(t *testing.T) {
	s := start(t, 0)
	for _, c := range []struct {
		user, verb string
		want       bool
	}{{"ann", "get", true}, {"ann", "create", false}, {"bob", "get", false}} {
		for range 2 {
			allowed, reason, err := s.Access(t.Context(), question(c.user, c.verb))
			testutil.Assert(t, err == nil && allowed == c.want && reason == "because",
				"%s %s: %v, %q, %v", c.user, c.verb, allowed, reason, err)
		}
		s.wantAsked(t, 1)
	}
	s.away.Store(true)
	allowed, _, err := s.Access(t.Context(), question("ann", "list"))
	testutil.Assert(t, err != nil && !allowed, "while the server is away: %v, %v", allowed, err)
}
