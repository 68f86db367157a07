package nodeapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/log"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// authorizer authorizes clients. Named users and groups may do everything, and other clients nothing. If none is named,
// the API server is asked about the node's subresource of the path. If none is named and there is no reviewer, every
// request is refused.
type authorizer struct {
	users, groups []string
	reviewer      Reviewer // nil for none
	node          string
}

// filter passes allowed requests to next. It answers 401 to unknown clients, 403 to clients without the right, and 503
// if too many reviews are running. It checks the certificate or token of each request, also on an open connection. A
// session that has begun is not checked again: a command or a followed log outlives its client's certificate or token.
func filter(known *authenticator, allowed *authorizer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := known.identify(r)
		if err != nil {
			unauthorized(w, r, err)
			return
		}
		fields := log.Fields{"user": user.Username, "groups": user.Groups}
		ok, reason, err := allowed.allows(r.Context(), user, r)
		if err != nil {
			if overloaded(w, err) {
				return
			}
			log.G(r.Context()).WithError(err).WithFields(fields).Warn("client cannot be authorized")
			http.Error(w, fmt.Sprintf("Authorization error (user=%s): %v", user.Username, err),
				http.StatusInternalServerError)
			return
		}
		if !ok {
			log.G(r.Context()).WithFields(fields).Warn("client is not allowed")
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, groups=%q): %s", user.Username, user.Groups, reason),
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// unauthorized answers 401. The reason why the API server could not review the token goes only to the log: an unknown
// client need not learn it.
func unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case overloaded(w, err):
	case errors.Is(err, errNotReviewed):
		log.G(r.Context()).WithError(err).Warn("client cannot be authenticated")
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	default:
		http.Error(w, "Unauthorized: "+err.Error(), http.StatusUnauthorized)
	}
}

// overloaded answers 503 if the error suggests a retry because too many reviews are running.
func overloaded(w http.ResponseWriter, err error) bool {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if ok {
		w.Header().Set("Retry-After", strconv.Itoa(max(seconds, 1)))
		http.Error(w, "Service Unavailable: too many clients are being reviewed", http.StatusServiceUnavailable)
	}
	return ok
}

// allows reports whether the user may make the request, and why not.
func (a *authorizer) allows(
	ctx context.Context, user authenticationv1.UserInfo, r *http.Request,
) (ok bool, reason string, err error) {
	if len(a.users)+len(a.groups) > 0 || a.reviewer == nil {
		named := slices.Contains(a.users, user.Username) ||
			slices.ContainsFunc(user.Groups, func(group string) bool { return slices.Contains(a.groups, group) })
		return named, "--client-users and --client-groups do not allow this user", nil
	}
	verb, subresources := question(r.Method, r.URL.Path)
	for _, subresource := range subresources {
		ok, reason, err = a.reviewer.Access(ctx, a.review(user, verb, subresource))
		if ok || err != nil {
			return ok, reason, err
		}
	}
	why := fmt.Sprintf("the user may not %s nodes/%s of %s", verb, subresources[0], a.node)
	if reason != "" {
		why += ": " + reason
	}
	return false, why, nil
}

func (a *authorizer) review(
	user authenticationv1.UserInfo, verb, subresource string,
) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Name: a.node, Subresource: subresource,
		},
	}
}

// question returns the verb and the node's subresources of a request, as the kubelet maps them with
// KubeletFineGrainedAuthz (KEP-2862). One of the subresources is enough. Unlike in the kubelet, a command in a pod
// always needs the verb create. A WebSocket request is a GET: with the verb get, users with read access could run
// commands.
func question(method, path string) (verb string, subresources []string) {
	verb = cmp.Or(map[string]string{
		http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[method], "get")
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "stats", "metrics":
		return verb, []string{first}
	case "pods", "healthz", "configz":
		return verb, []string{first, "proxy"}
	case "runningpods":
		return verb, []string{"pods", "proxy"}
	case "exec", "attach", "portForward", "run":
		return "create", []string{"proxy"}
	default:
		return verb, []string{"proxy"}
	}
}
