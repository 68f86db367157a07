package apitest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"sync"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	node "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Server is the API server. It is safe for concurrent use.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int                       // of the newest change
	oldest   int                       // changes up to this version are forgotten
	objects  map[string]runtime.Object // by resource/namespace/name
	changes  []change
	moved    chan struct{}           // closed and replaced to wake the watches
	broken   chan struct{}           // closed and replaced to end the watches
	fail     http.HandlerFunc        // answers every list and watch, if set
	refuse   func(call string) error // is asked before each request for one object, if set
	away     bool                    // see SetAway and SetHang
	hang     bool
	requests []Request
	calls    []string
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

// New makes a server without objects that does not listen.
func New() *Server {
	return &Server{objects: map[string]runtime.Object{}, moved: make(chan struct{}), broken: make(chan struct{}),
		version: 1}
}

// Start makes a server that listens until the test ends.
func Start(t testing.TB) *Server {
	s := New()
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Fail(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// URL is the address of the server.
func (s *Server) URL() string { return s.http.URL }

// Client is a client of the server.
func (s *Server) Client(t testing.TB) corev1.CoreV1Interface {
	t.Helper()
	return ClientFor(t, &rest.Config{Host: s.http.URL})
}

// ClientFor is a client with this configuration, but without a client's rate limits.
func ClientFor(t testing.TB, config *rest.Config) corev1.CoreV1Interface {
	t.Helper()
	config.QPS = -1
	client, err := corev1.NewForConfig(config)
	testutil.Must(t, err)
	return client
}

// Set adds or replaces an object. The server keeps a copy, in which only the resource version differs.
func (s *Server) Set(object runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object = object.DeepCopyObject()
	s.store(resourceOf(object).name, object)
}

// Object returns a copy of the stored object with the same kind, namespace and name, or nil.
func (s *Server) Object(object runtime.Object) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := accessor(object)
	if found := s.objects[key(resourceOf(object).name, wanted.GetNamespace(), wanted.GetName())]; found != nil {
		return found.DeepCopyObject()
	}
	return nil
}

// Delete removes the stored object with the same kind, namespace and name.
func (s *Server) Delete(object runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := accessor(object)
	s.drop(resourceOf(object).name, found.GetNamespace(), found.GetName())
}

// store keeps an object, and sends the change to watches. The caller holds mu.
func (s *Server) store(resource string, object runtime.Object) {
	found := accessor(object)
	name := key(resource, found.GetNamespace(), found.GetName())
	kind := watch.Added
	if s.objects[name] != nil {
		kind = watch.Modified
	}
	s.record(kind, object)
	s.objects[name] = object
}

// drop removes an object, and sends the change to watches. The caller holds mu.
func (s *Server) drop(resource, namespace, name string) {
	if old := s.objects[key(resource, namespace, name)]; old != nil {
		delete(s.objects, key(resource, namespace, name))
		s.record(watch.Deleted, old.DeepCopyObject())
	}
}

// record appends a change with a new version. The caller holds mu.
func (s *Server) record(kind watch.EventType, object runtime.Object) {
	s.version++
	accessor(object).SetResourceVersion(strconv.Itoa(s.version))
	s.changes = append(s.changes,
		change{version: s.version, kind: kind, resource: resourceOf(object).name, object: object})
	s.wake()
}

// Bookmark sends a bookmark with a new version to all watches. A real server does so after changes of objects that a
// watch does not select.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for _, known := range resources {
		object := known.blank.DeepCopyObject()
		accessor(object).SetResourceVersion(strconv.Itoa(s.version))
		s.changes = append(s.changes,
			change{version: s.version, kind: watch.Bookmark, resource: resourceOf(object).name, object: object})
	}
	s.wake()
}

// Forget drops all changes. A watch that resumes at an older version gets 410 Gone.
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

// Fail ends the watches, and lets the handler answer every new list and watch. With nil the server answers again.
func (s *Server) Fail(handler http.HandlerFunc) {
	s.mu.Lock()
	s.fail = handler
	s.mu.Unlock()
	if handler != nil {
		s.Disconnect()
	}
}

// AfterList calls hook once, after the next list is made and before it is sent.
func (s *Server) AfterList(hook func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.afterGet = hook
}

// Asked returns the lists and watches so far, such as "list pods" or "watch pods from 7".
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// wake makes the watches look for changes. The caller holds mu.
func (s *Server) wake() {
	close(s.moved)
	s.moved = make(chan struct{})
}

func accessor(object runtime.Object) metav1.Object {
	found, err := meta.Accessor(object)
	if err != nil {
		panic(fmt.Sprintf("apitest: %T is not an object: %v", object, err))
	}
	return found
}

func key(resource, namespace, name string) string { return resource + "/" + namespace + "/" + name }

// resource is one kind of objects that the server serves.
type resource struct {
	name, kind string
	blank      runtime.Object
}

var resources = []resource{
	{"pods", "Pod", &v1.Pod{}}, {"configmaps", "ConfigMap", &v1.ConfigMap{}}, {"secrets", "Secret", &v1.Secret{}},
	{"services", "Service", &v1.Service{}}, {"runtimeclasses", "RuntimeClass", &node.RuntimeClass{}},
	{"events", "Event", &v1.Event{}}, {"nodes", "Node", &v1.Node{}}, {"leases", "Lease", &coordination.Lease{}},
}

func resourceOf(object runtime.Object) resource {
	for _, known := range resources {
		if reflect.TypeOf(known.blank) == reflect.TypeOf(object) {
			return known
		}
	}
	panic(fmt.Sprintf("apitest: %T is not served", object))
}

// fieldsOf returns the fields that a selector may name.
func fieldsOf(object runtime.Object) fields.Set {
	found := accessor(object)
	set := fields.Set{"metadata.name": found.GetName(), "metadata.namespace": found.GetNamespace()}
	if pod, ok := object.(*v1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
	}
	return set
}
