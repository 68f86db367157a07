package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/criadapter/criadapter/internal/testutil"
)

// reviewer accepts the token "good" of the user ann. rights has each user's rights as "verb subresource".
type reviewer struct {
	rights map[string][]string
	err    error
}

func (r *reviewer) Token(_ context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	return authenticationv1.UserInfo{Username: "ann", Groups: []string{authenticatedGroup}}, token == "good", r.err
}

func (r *reviewer) Access(_ context.Context, q authorizationv1.SubjectAccessReviewSpec) (bool, string, error) {
	a := q.ResourceAttributes
	if a.Resource != "nodes" || a.Name != "node" || !slices.Contains(q.Groups, authenticatedGroup) {
		return false, "the question is wrong", r.err
	}
	return slices.Contains(r.rights[q.User], a.Verb+" "+a.Subresource), "because", r.err
}

// TestNoUserIsNamed: a certificate of the cluster's authority is not enough, since every user and node has one.
func TestNoUserIsNamed(t *testing.T) {
	a := startAPI(t, &runtime{}, func(o *APIOptions) { o.Users = nil })
	for _, p := range paths {
		code, body := a.do(a.client, p.method, p.path)
		testutil.Assert(t, code == http.StatusForbidden, "%s: %d %s", p.path, code, body)
	}
}

// TestReviewed asks the API server about rights.
func TestReviewed(t *testing.T) {
	r := &reviewer{rights: map[string][]string{
		"kube-apiserver": {"get proxy", "create proxy", "get stats", "get metrics"},
		"reader":         {"get proxy"},
		"prometheus":     {"get metrics"},
		"ann":            {"get pods"},
	}}
	a := startAPI(t, &runtime{}, func(o *APIOptions) { o.Users, o.Reviewer = nil, r })
	reader, scraper := a.clientWith(a.authority.issue("reader", nil)), a.clientWith(
		a.authority.issue("prometheus", nil))
	nobody := a.clientWith(nil, nil)
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	for _, c := range []struct {
		name         string
		client       *http.Client
		method, path string
		header       []string
		want         int // 0 for an allowed request
	}{
		{"everything", a.client, "POST", "/exec/ns/nosuch/c", nil, 0},
		{"everything", a.client, "GET", "/metrics/cadvisor", nil, 0},
		{"reads", reader, "GET", "/pods", nil, 0},
		{"a reader runs no command", reader, "POST", "/exec/ns/pod/c", nil, http.StatusForbidden},
		{"a reader runs no command over a WebSocket", reader, "GET", "/exec/ns/pod/c", nil, http.StatusForbidden},
		{"metrics", scraper, "GET", "/metrics/resource", nil, 0},
		{"a scraper reads metrics only", scraper, "GET", "/pods", nil, http.StatusForbidden},
		{"a token", nobody, "GET", "/pods/", bearer("good"), 0},
		{"a token without the right", nobody, "GET", "/configz", bearer("good"), http.StatusForbidden},
		{"a bad token", nobody, "GET", "/pods", bearer("bad"), http.StatusUnauthorized},
		{"nothing", nobody, "GET", "/pods", nil, http.StatusUnauthorized},
	} {
		code, body := a.do(c.client, c.method, c.path, c.header...)
		refused := code == http.StatusUnauthorized || code == http.StatusForbidden
		testutil.Assert(t, code == c.want || c.want == 0 && !refused,
			"%s: %s: %d %s, want %d", c.name, c.path, code, body, c.want)
		testutil.Assert(t, code != http.StatusForbidden || strings.Contains(body, "because"), "%s: %s", c.path, body)
	}
	r.err = errors.New("no API server")
	code, body := a.get("/pods")
	testutil.Assert(t, code == http.StatusInternalServerError && strings.Contains(body, "no API server"),
		"while the server is away: %d %s", code, body)
	hook := logtest.NewGlobal()
	defer logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	code, body = a.do(nobody, "GET", "/pods", bearer("good")...)
	testutil.Assert(t, code == http.StatusUnauthorized && body == "Unauthorized\n",
		"a token while the server is away: %d %q", code, body)
	entry := hook.LastEntry()
	testutil.Assert(t, entry != nil && entry.Level == logrus.WarnLevel &&
		strings.Contains(fmt.Sprint(entry.Data[logrus.ErrorKey]), "no API server"),
		"log of the failed review: %+v", entry)
	r.err = apierrors.NewTooManyRequests("busy", 7)
	for name, client := range map[string]*http.Client{"token": nobody, "certificate": a.client} {
		code, body := a.do(client, "GET", "/pods", bearer("good")...)
		testutil.Assert(t, code == http.StatusServiceUnavailable && !strings.Contains(body, "busy"),
			"%s while too many are reviewed: %d %q", name, code, body)
	}
}
