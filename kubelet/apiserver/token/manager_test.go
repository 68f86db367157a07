package token

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// issuer is an API server that only issues tokens.
type issuer struct {
	mu      sync.Mutex
	asked   []authenticationv1.TokenRequest
	paths   []string
	now     time.Time
	refused int // the HTTP status of refusals, 0 for none
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if i.refused != 0 {
		w.WriteHeader(i.refused)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonForbidden, Message: "not for you", Code: int32(i.refused),
		})
		return
	}
	var ask authenticationv1.TokenRequest
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	i.asked, i.paths = append(i.asked, ask), append(i.paths, r.Method+" "+r.URL.Path)
	ask.Status = authenticationv1.TokenRequestStatus{
		Token:               fmt.Sprintf("token-%d", len(i.asked)),
		ExpirationTimestamp: metav1.NewTime(i.now.Add(time.Duration(*ask.Spec.ExpirationSeconds) * time.Second)),
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(ask)
}

// set moves the clock and sets the HTTP status of refusals, 0 for none.
func (i *issuer) set(now time.Time, refused int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now, i.refused = now, refused
}

// fixture is a manager with a settable clock and server.
type fixture struct {
	*Manager
	server *issuer
	begun  time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := &issuer{}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	client, err := corev1.NewForConfig(&rest.Config{
		Host: listening.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	testutil.Must(t, err)
	f := &fixture{Manager: New(Options{ServiceAccounts: client}), server: server,
		begun: time.Now().Truncate(time.Second)}
	f.setClocks(0, 0)
	return f
}

// setClocks sets both clocks to the time after the start.
func (f *fixture) setClocks(after time.Duration, refused int) {
	now := f.begun.Add(after)
	f.now = func() time.Time { return now }
	f.server.set(now, refused)
}

func (f *fixture) want(t *testing.T, pod *v1.Pod, projection *v1.ServiceAccountTokenProjection, want string) {
	t.Helper()
	got, err := f.Token(context.Background(), pod, projection)
	testutil.Require(t, err == nil && got == want, "got %q, %v; want %q", got, err, want)
}

func pod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "uid-1"},
		Spec:       v1.PodSpec{ServiceAccountName: "seller"},
	}
}

func projection(audience string, life int64) *v1.ServiceAccountTokenProjection {
	return &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &life, Path: "token"}
}

func TestTokenIsBoundToItsPod(t *testing.T) {
	f := newFixture(t)
	f.want(t, pod(), projection("vault", 600), "token-1")
	f.want(t, pod(), projection("", 3607), "token-2")
	f.want(t, pod(), projection("vault", 600), "token-1")
	want := "POST /api/v1/namespaces/shop/serviceaccounts/seller/token"
	testutil.Assert(t, f.server.paths[0] == want, "asked %s, want %s", f.server.paths[0], want)
	first := f.server.asked[0].Spec
	testutil.Assert(t, len(first.Audiences) == 1 && first.Audiences[0] == "vault" && *first.ExpirationSeconds == 600,
		"asked for %+v", first)
	ref := first.BoundObjectRef
	testutil.Assert(t, ref != nil && ref.Kind == "Pod" && ref.APIVersion == "v1" && ref.Name == "web" &&
		ref.UID == "uid-1", "bound to %+v", ref)
	second := f.server.asked[1].Spec
	testutil.Assert(t, len(second.Audiences) == 0, "without an audience asked for %v", second.Audiences)
}

func TestTokenDefaults(t *testing.T) {
	f := newFixture(t)
	p := pod()
	p.Spec.ServiceAccountName = ""
	f.want(t, p, &v1.ServiceAccountTokenProjection{Path: "token"}, "token-1")
	testutil.Assert(t, *f.server.asked[0].Spec.ExpirationSeconds == 3600 &&
		strings.HasSuffix(f.server.paths[0], "/serviceaccounts/default/token"), "asked %s for %+v", f.server.paths[0],
		f.server.asked[0].Spec)
}

func TestTokenIsRenewed(t *testing.T) {
	hour, year := time.Hour, 365*24*time.Hour
	for name, c := range map[string]struct {
		life         time.Duration
		still, again time.Duration
	}{
		"at four fifths of its life": {hour, 47 * time.Minute, 48 * time.Minute},
		"after a day":                {year, 24*time.Hour - time.Minute, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			wanted := projection("", int64(c.life/time.Second))
			f.want(t, pod(), wanted, "token-1")
			f.setClocks(c.still, 0)
			f.want(t, pod(), wanted, "token-1")
			f.setClocks(c.again, 0)
			f.want(t, pod(), wanted, "token-2")
			f.want(t, pod(), wanted, "token-2")
		})
	}
}

func TestTokenOutlivesAServerThatRefuses(t *testing.T) {
	f := newFixture(t)
	wanted := projection("", 3600)
	f.want(t, pod(), wanted, "token-1")
	f.setClocks(50*time.Minute, http.StatusForbidden)
	f.want(t, pod(), wanted, "token-1")
	f.setClocks(time.Hour, http.StatusForbidden)
	_, err := f.Token(context.Background(), pod(), wanted)
	testutil.Assert(t, apierrors.IsForbidden(err) && strings.Contains(err.Error(), `"shop/seller"`),
		"with an expired token: %v", err)
	f.setClocks(time.Hour, 0)
	f.want(t, pod(), wanted, "token-2")
}

func TestTokenIsForgotten(t *testing.T) {
	f := newFixture(t)
	other := pod()
	other.UID = "uid-2"
	f.want(t, pod(), projection("", 600), "token-1")
	f.want(t, other, projection("", 600), "token-2")
	f.Forget("uid-1")
	f.want(t, other, projection("", 600), "token-2")
	f.want(t, pod(), projection("", 600), "token-3")
}

func TestStaticPodsHaveNoTokens(t *testing.T) {
	f := newFixture(t)
	p := pod()
	p.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
	_, err := f.Token(context.Background(), p, projection("", 600))
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && len(f.server.asked) == 0,
		"got %v after %d requests", err, len(f.server.asked))
}
