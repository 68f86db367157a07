package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Server keeps pods and events, and answers requests for them. It is an http.Handler, and safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	objects map[string]metav1.Object // by resource/namespace/name
	serial  int
	calls   []string
	away    bool
	fail    func(call string) error
}

// New makes a server without objects.
func New() *Server { return &Server{objects: map[string]metav1.Object{}} }

// Config is for clients of a Server that is served at an address: it understands JSON alone.
func Config(address string) *rest.Config {
	return &rest.Config{Host: address, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// Core is a client that calls the server in the same goroutine: no connection, so that tests may run in fake time.
func (s *Server) Core() corev1.CoreV1Interface {
	client, err := corev1.NewForConfigAndClient(Config("http://server"), &http.Client{Transport: direct{s}})
	if err != nil {
		panic(err) // the configuration above is right
	}
	return client
}

// direct is the transport of Core.
type direct struct{ server *Server }

// RoundTrip is http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	d.server.mu.Lock()
	away := d.server.away
	d.server.mu.Unlock()
	if away {
		return nil, errors.New("connection refused")
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	d.server.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// SetAway has Core's requests fail as if nothing listened.
func (s *Server) SetAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// SetFail has fail asked before each request, which is given as in Calls. An error is the answer; one that is no API
// status is an internal error. It must not call the server. Nil ends it.
func (s *Server) SetFail(fail func(call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// Calls returns the requests since the last call, each as "VERB resource/name": "PATCH pods/web/status".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// Put keeps a pod as it is, with a UID, a generation and a resource version; it returns what is kept.
func (s *Server) Put(pod *v1.Pod) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := pod.DeepCopy()
	s.keep("pods", kept)
	return kept.DeepCopy()
}

// Edit changes a pod behind everybody's back, and returns it.
func (s *Server) Edit(namespace, name string, edit func(*v1.Pod)) *v1.Pod {
	pod := s.Pod(namespace, name)
	edit(pod)
	return s.Put(pod)
}

// Pod returns a pod, or nil.
func (s *Server) Pod(namespace, name string) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod, ok := s.objects[key("pods", namespace, name)].(*v1.Pod); ok {
		return pod.DeepCopy()
	}
	return nil
}

// Remove drops a pod at once, as a forced deletion does.
func (s *Server) Remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key("pods", namespace, name))
}

// Events returns all events by name.
func (s *Server) Events() []v1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var events []v1.Event
	for _, object := range s.objects {
		if event, ok := object.(*v1.Event); ok {
			events = append(events, *event.DeepCopy())
		}
	}
	slices.SortFunc(events, func(a, b v1.Event) int { return strings.Compare(a.Name, b.Name) })
	return events
}

func key(resource, namespace, name string) string { return resource + "/" + namespace + "/" + name }

// keep stores an object with what the server adds. The caller holds mu.
func (s *Server) keep(resource string, object metav1.Object) {
	s.serial++
	if object.GetUID() == "" {
		object.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.serial)))
	}
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.Time{Time: time.Now().Truncate(time.Second)})
	}
	if object.GetGeneration() == 0 {
		object.SetGeneration(1)
	}
	object.SetResourceVersion(strconv.Itoa(s.serial))
	s.objects[key(resource, object.GetNamespace(), object.GetName())] = object
}

// request is one request, taken apart.
type request struct {
	*http.Request
	resource, namespace, name, subresource string
}

func (r request) call() string {
	words := []string{r.resource}
	for _, word := range []string{r.name, r.subresource} {
		if word != "" {
			words = append(words, word)
		}
	}
	return r.Method + " " + strings.Join(words, "/")
}

func (r request) group() schema.GroupResource { return schema.GroupResource{Resource: r.resource} }

// ServeHTTP is http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	words := append(strings.Split(strings.Trim(r.URL.Path, "/"), "/"), "", "") // api v1 namespaces NS RESOURCE NAME SUB
	if len(words) < 7 || words[2] != "namespaces" {
		answer(w, nil, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
		return
	}
	object, err := s.serve(request{r, words[4], words[3], words[5], words[6]})
	answer(w, object, err)
}

func answer(w http.ResponseWriter, object any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			status = apierrors.NewInternalError(err)
		}
		told := status.Status()
		told.Kind, told.APIVersion = "Status", "v1"
		w.WriteHeader(int(told.Code))
		object = told
	}
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(err) // objects of the API can be encoded, and the answer is in memory
	}
}
