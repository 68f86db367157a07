package apitest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// query is a list or a watch.
type query struct {
	resource, namespace string
	selector            fields.Selector
	watch               bool
	from                int
}

func parseQuery(r *http.Request) (query, error) {
	path := parsePath(r)
	q := query{resource: path.resource, namespace: path.namespace, watch: r.URL.Query().Get("watch") != ""}
	q.from, _ = strconv.Atoi(r.URL.Query().Get("resourceVersion")) // none is 0
	var err error
	q.selector, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	return q, err
}

func (q query) matches(resource string, object runtime.Object) bool {
	return resource == q.resource && (q.namespace == "" || accessor(object).GetNamespace() == q.namespace) &&
		q.selector.Matches(fieldsOf(object))
}

// ServeHTTP implements http.Handler. A GET without an object's name is a list or a watch. All other requests are for
// one object.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path := parsePath(r); r.Method != http.MethodGet || path.name != "" {
		object, err := s.serve(path)
		answer(w, object, err)
		return
	}
	s.serveList(w, r)
}

// parsePath parses (api | apis/GROUP)/VERSION/[namespaces/NS/]RESOURCE[/NAME[/SUB]]. Missing parts are empty.
func parsePath(r *http.Request) request {
	words := append(strings.Split(strings.Trim(r.URL.Path, "/"), "/"), make([]string, 7)...)
	if words[0] == "apis" {
		words = words[1:]
	}
	words = words[2:]
	namespace := ""
	if words[0] == "namespaces" {
		namespace, words = words[1], words[2:]
	}
	return request{r, words[0], namespace, words[1], words[2]}
}

// serveList answers a list or a watch.
func (s *Server) serveList(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	fail := s.fail
	asked := "list " + q.resource
	if q.watch {
		asked = "watch " + q.resource + " from " + strconv.Itoa(q.from)
	}
	s.asked = append(s.asked, asked)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case fail != nil:
		fail(w, r)
	case q.watch:
		s.watch(w, r, q)
	default:
		s.list(w, q)
	}
}

func (s *Server) list(w http.ResponseWriter, q query) {
	s.mu.Lock()
	items := []runtime.Object{}
	for key, object := range s.objects {
		resource, _, _ := strings.Cut(key, "/")
		if q.matches(resource, object) {
			items = append(items, object)
		}
	}
	answer, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": kindOf(q.resource) + "List", "items": items,
		"metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
	})
	after := s.afterGet
	s.afterGet = nil
	s.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if after != nil {
		after()
	}
	_, _ = w.Write(answer) // fails only if the client has left
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, q query) {
	s.mu.Lock()
	broken, gone := s.broken, q.from < s.oldest
	s.mu.Unlock()
	send := func(kind watch.EventType, object runtime.Object) {
		// It fails only if the client has left.
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": typed(object)})
		_ = http.NewResponseController(w).Flush()
	}
	if gone {
		status := apierrors.NewResourceExpired("too old resource version").Status()
		send(watch.Error, &status)
		return
	}
	_ = http.NewResponseController(w).Flush()
	for sent := q.from; ; {
		s.mu.Lock()
		changes, moved := s.since(sent, q), s.moved
		ended := s.broken != broken // an ended watch sends no later changes
		s.mu.Unlock()
		if ended {
			return
		}
		for _, c := range changes {
			send(c.kind, c.object)
			sent = c.version
		}
		select {
		case <-r.Context().Done():
			return
		case <-broken:
			return
		case <-moved:
		}
	}
}

// since returns the changes that the query matches, after a version. The caller holds mu.
func (s *Server) since(version int, q query) []change {
	var found []change
	for _, c := range s.changes {
		if c.version > version &&
			(c.kind == watch.Bookmark && c.resource == q.resource || q.matches(c.resource, c.object)) {
			found = append(found, c)
		}
	}
	return found
}

func kindOf(name string) string {
	for _, known := range resources {
		if known.name == name {
			return known.kind
		}
	}
	return ""
}

// typed returns the object with its kind, which decoding of a watch needs.
func typed(object runtime.Object) runtime.Object {
	object = object.DeepCopyObject()
	kind := "Status"
	if _, ok := object.(*metav1.Status); !ok {
		kind = resourceOf(object).kind
	}
	object.GetObjectKind().SetGroupVersionKind(v1.SchemeGroupVersion.WithKind(kind))
	return object
}
