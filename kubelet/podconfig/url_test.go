package podconfig

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// site is a URL that the test polls, and its server.
type site struct {
	*URLSource
	t        *testing.T
	server   *httptest.Server
	answer   atomic.Pointer[http.HandlerFunc]
	problems []error
}

func newSite(t *testing.T, opts URLOptions) *site {
	s := &site{t: t}
	s.server = httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.answer.Load())(w, r) }))
	t.Cleanup(s.server.Close)
	opts.URL, opts.NodeName = s.server.URL+"/pods", "n"
	opts.Problem = func(_ string, err error) { s.problems = append(s.problems, err) }
	s.URLSource = NewURLSource(opts, New(Options{Sources: []string{model.SourceHTTP}}))
	if opts.Every == 0 {
		s.opts.client.Timeout = testutil.Patience // a slow machine does not end a request
	}
	return s
}

// want polls once and checks the pods' images and the number of problems since the last call.
func (s *site) want(what string, answer http.HandlerFunc, images map[string]string, problems int) {
	s.t.Helper()
	s.answer.Store(&answer)
	s.problems = nil
	err := s.poll(s.t.Context())
	testutil.Require(s.t, err == nil, "%s: %v", what, err)
	drain(s.config)
	got := map[string]string{}
	for _, pod := range s.config.storage.accepted[model.SourceHTTP] {
		got[strings.TrimSuffix(pod.Name, "-n")] = pod.Spec.Containers[0].Image
	}
	testutil.Assert(s.t, maps.Equal(got, images) && len(s.problems) == problems,
		"%s: %v and problems %v, want %v and %d", what, got, s.problems, images, problems)
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func code(number int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(number) }
}

const podList = `{"apiVersion":"v1","kind":"PodList","items":[
	{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"1"}]}},
	{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"1"}]}}]}`

func TestURLAnswers(t *testing.T) {
	s := newSite(t, URLOptions{})
	s.want("YAML", text(podText("a", "1")), map[string]string{"a": "1"}, 0)
	s.want("JSON", text(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"2"}]}}`), map[string]string{"a": "2"}, 0)
	s.want("a list", text(podList), map[string]string{"a": "1", "b": "1"}, 0)
	s.want("documents", text(podText("a", "1")+"---\n"+podText("d", "1")), map[string]string{"a": "1", "d": "1"}, 0)
	for _, pod := range s.config.storage.accepted[model.SourceHTTP] {
		testutil.Assert(t, pod.Annotations[model.AnnotationConfigSource] == model.SourceHTTP && len(pod.UID) == 32 &&
			model.IsStatic(pod) && pod.Spec.RestartPolicy != "", "pod %+v", pod)
	}
	testutil.Assert(t, s.config.SeenAllSources(), "not ready")
}

// TestURLKeepsWhatWas: earlier pods stay after bad answers of many kinds. Each kind is reported once.
func TestURLKeepsWhatWas(t *testing.T) {
	s := newSite(t, URLOptions{})
	elsewhere := httptest.NewServer(text(podText("evil", "1")))
	defer elsewhere.Close()
	both := map[string]string{"a": "1", "b": "1"}
	bad := map[string]http.HandlerFunc{
		"garbage":        text("<html>hello"),
		"another kind":   text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"),
		"no document":    text("# nothing\n"),
		"not found":      code(http.StatusNotFound),
		"server error":   code(http.StatusInternalServerError),
		"no content":     code(http.StatusNoContent),
		"not modified":   code(http.StatusNotModified), // the request had no If-None-Match
		"another server": http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP,
		"in circles":     http.RedirectHandler("/pods", http.StatusFound).ServeHTTP,
		"too large":      text(strings.Repeat("#", maxManifest) + "\n" + podText("c", "1")),
		"cut off":        cutOff,
		"hung up":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	ends := 0 // problems that end with a good list
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		s.want("before "+name, text(podList), both, ends)
		ends = 1
		s.want(name, bad[name], both, 1)
		s.want(name+" again", bad[name], both, 0)
	}
	s.want("one of two wrong", text(podText("a", "2")+"---\n"+strings.Replace(podText("b", "2"), "image", "imagge", 1)),
		map[string]string{"a": "2", "b": "1"}, 1)
	s.want("right", text(podText("a", "3")), map[string]string{"a": "3"}, 1)
	testutil.Assert(t, s.problems[0] == nil, "problem %v, want its end", s.problems[0])
}

func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "9999")
	fmt.Fprint(w, podText("c", "1"))
}

// TestURLHangs: a hanging request is given up before the next one is due. Earlier pods stay.
func TestURLHangs(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"before the answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"within the answer": hangInBetween,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, URLOptions{Every: 2 * time.Second})
			testutil.Assert(t, s.opts.client.Timeout < s.opts.Every,
				"the timeout %s is not below the period %s", s.opts.client.Timeout, s.opts.Every)
			both := map[string]string{"a": "1", "b": "1"}
			s.want("before", text(podList), both, 0)
			s.opts.client.Timeout = 100 * time.Millisecond
			s.want("hanging", answer, both, 1)
			s.want("hanging again", answer, both, 0)
		})
	}
}

// TestURLTimeoutsHaveOneText: a URL that hangs is one problem, wherever the request waited.
func TestURLTimeoutsHaveOneText(t *testing.T) {
	u := NewURLSource(URLOptions{URL: "http://127.0.0.1:1/pods"}, New(Options{}))
	for where, err := range map[string]error{
		"connect": &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded},
		"headers": &url.Error{Op: "Get", URL: "http://me:hidden@127.0.0.1:1/pods", Err: context.DeadlineExceeded},
		"body":    context.DeadlineExceeded,
	} {
		testutil.Equal(t, u.plain(err).Error(), "no complete answer within 10s: context deadline exceeded", "%s", where)
	}
}

func hangInBetween(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, podText("c", "1"))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// TestURLEmpty: an empty answer ends all pods, as in the kubelet.
func TestURLEmpty(t *testing.T) {
	s := newSite(t, URLOptions{})
	s.want("a list", text(podList), map[string]string{"a": "1", "b": "1"}, 0)
	s.want("empty", text(""), map[string]string{}, 1)
	s.want("still empty", text(""), map[string]string{}, 0)
	s.want("the list again", text(podList), map[string]string{"a": "1", "b": "1"}, 1)
}

// TestURLNotModified: requests name the ETag of the known document. If the server answers 304, the document's pods
// stay, even after a failure.
func TestURLNotModified(t *testing.T) {
	s := newSite(t, URLOptions{})
	versioned := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"7"`)
			if r.Header.Get("If-None-Match") == `"7"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, body)
		}
	}
	both := map[string]string{"a": "1", "b": "1"}
	s.want("first", versioned(podList), both, 0)
	s.want("not modified", versioned("unread garbage"), both, 0)
	s.want("failing", code(http.StatusBadGateway), both, 1)
	s.want("not modified after that", versioned("unread garbage"), both, 1)
	s.want("without versions", text(podList), both, 0)
	s.want("the version is forgotten", versioned(podText("a", "2")), map[string]string{"a": "2"}, 0)
}

func TestURLHeader(t *testing.T) {
	s := newSite(t, URLOptions{Header: http.Header{"x-token": {"1", "2"}, "Host": {"pods.example"}}})
	s.want("headers", func(w http.ResponseWriter, r *http.Request) {
		testutil.Assert(t, slices.Equal(r.Header.Values("X-Token"), []string{"1", "2"}) && r.Host == "pods.example",
			"asked with %v of %s", r.Header, r.Host)
		if r.URL.Path == "/pods" {
			http.Redirect(w, r, "/moved", http.StatusFound) // within one server the headers are sent again
			return
		}
		fmt.Fprint(w, podText("a", "1"))
	}, map[string]string{"a": "1"}, 0)
}

// TestURLObjects: config maps and secrets of a URL are reported and not used. The URL's pods run.
func TestURLObjects(t *testing.T) {
	s := newSite(t, URLOptions{})
	body := podText("a", "1") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"
	s.want("a config map", text(body), map[string]string{"a": "1"}, 1)
	s.want("the same", text(body), map[string]string{"a": "1"}, 0)
}

// TestURLPassword: neither errors nor annotations show the password of a URL.
func TestURLPassword(t *testing.T) {
	u := NewURLSource(URLOptions{URL: "http://me:hidden@127.0.0.1:1/pods", Problem: func(where string, err error) {
		testutil.Assert(t, !strings.Contains(where+err.Error(), "hidden") && err != nil, "reported %s: %v", where, err)
	}}, New(Options{}))
	testutil.Check(t, u.poll(t.Context()))
	docs, err := manifest.Parse([]byte(podText("a", "1")))
	testutil.Must(t, err)
	pods, err := accept(docs.Pods, manifest.Origin{Source: model.SourceHTTP, Location: u.shownURL(), NodeName: "n"})
	testutil.Assert(t, err == nil && !strings.Contains(pods[0].Annotations[model.AnnotationManifest], "hidden"),
		"pods %+v, %v", pods, err)
}

// TestURLWhere: messages name the URL without its secret parts.
func TestURLWhere(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/pods":                        "https://example.com/pods",
		"https://me:pa55@example.com/pods?token=s3cret&a": "https://me:xxxxx@example.com/pods?xxxxx",
		"https://me:pa55@example.com:port/":               "the manifest URL",
	} {
		testutil.Equal(t, NewURLSource(URLOptions{URL: address}, nil).shownURL(), want, "%s is named", address)
	}
}
