package apitest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Server is the API server. It is safe for concurrent use.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int                       // of the newest change
	oldest   int                       // changes up to this version are forgotten
	objects  map[string]runtime.Object // by resource/namespace/name
	changes  []change
	moved    chan struct{} // closed and replaced when a watch has something to look at
	broken   chan struct{} // closed and replaced to end the watches
	fail     http.HandlerFunc
	afterGet func()
	asked    []string
}

// change is one event of a watch.
type change struct {
	version  int
	kind     watch.EventType
	resource string
	object   runtime.Object
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	s := &Server{objects: map[string]runtime.Object{}, moved: make(chan struct{}), broken: make(chan struct{}), version: 1}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Fail(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// URL is where the server is.
func (s *Server) URL() string { return s.http.URL }

// Client is a client of the server.
func (s *Server) Client(t testing.TB) corev1.CoreV1Interface {
	t.Helper()
	return ClientFor(t, &rest.Config{Host: s.http.URL})
}

// ClientFor is a client of a server elsewhere, without the limits that a node sets itself.
func ClientFor(t testing.TB, config *rest.Config) corev1.CoreV1Interface {
	t.Helper()
	config.QPS = -1
	client, err := corev1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Set adds or replaces an object: a *v1.Pod, *v1.ConfigMap or *v1.Secret. The server keeps a copy.
func (s *Server) Set(object runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object = object.DeepCopyObject()
	key := keyOf(object)
	kind := watch.Added
	if s.objects[key] != nil {
		kind = watch.Modified
	}
	s.record(kind, object)
	s.objects[key] = object
}

// Delete removes an object of that name.
func (s *Server) Delete(object runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(object)
	if old := s.objects[key]; old != nil {
		delete(s.objects, key)
		s.record(watch.Deleted, old.DeepCopyObject())
	}
}

// record makes a change of a new version. The caller holds mu.
func (s *Server) record(kind watch.EventType, object runtime.Object) {
	s.version++
	accessor(object).SetResourceVersion(strconv.Itoa(s.version))
	s.changes = append(s.changes, change{version: s.version, kind: kind, resource: resourceOf(object), object: object})
	s.wake()
}

// Bookmark tells all watches a new version, as if something changed that they do not look at.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for _, object := range []runtime.Object{&v1.Pod{}, &v1.ConfigMap{}, &v1.Secret{}} {
		accessor(object).SetResourceVersion(strconv.Itoa(s.version))
		s.changes = append(s.changes, change{version: s.version, kind: watch.Bookmark, resource: resourceOf(object), object: object})
	}
	s.wake()
}

// Forget drops all changes there were: a watch that resumes before now is answered 410 Gone.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest, s.changes = s.version, nil
}

// Disconnect ends all watches.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.broken)
	s.broken = make(chan struct{})
}

// Fail has every new request answered by the handler, and ends the watches; nil ends that.
func (s *Server) Fail(handler http.HandlerFunc) {
	s.mu.Lock()
	s.fail = handler
	s.mu.Unlock()
	if handler != nil {
		s.Disconnect()
	}
}

// AfterList calls do once, after the next list was made and before it is answered.
func (s *Server) AfterList(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.afterGet = do
}

// Asked are the requests so far, "list pods" or "watch pods from 7".
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// wake has the watches look. The caller holds mu.
func (s *Server) wake() {
	close(s.moved)
	s.moved = make(chan struct{})
}

func accessor(object runtime.Object) metav1.Object {
	found, err := meta.Accessor(object)
	if err != nil {
		panic(fmt.Sprintf("apitest: %T is no object: %v", object, err))
	}
	return found
}

func keyOf(object runtime.Object) string {
	found := accessor(object)
	return resourceOf(object) + "/" + found.GetNamespace() + "/" + found.GetName()
}

func resourceOf(object runtime.Object) string {
	switch object.(type) {
	case *v1.Pod:
		return "pods"
	case *v1.ConfigMap:
		return "configmaps"
	case *v1.Secret:
		return "secrets"
	default:
		panic(fmt.Sprintf("apitest: %T is not served", object))
	}
}

// fieldsOf are the fields that a selector may name.
func fieldsOf(object runtime.Object) fields.Set {
	found := accessor(object)
	set := fields.Set{"metadata.name": found.GetName(), "metadata.namespace": found.GetNamespace()}
	if pod, ok := object.(*v1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
	}
	return set
}
