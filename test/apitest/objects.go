package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Calls returns the requests for one object since the previous Calls, each as "VERB resource/name", such as "PATCH
// pods/web/status".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// Put stores a pod with a UID, a generation and a resource version, and returns the stored object.
func (s *Server) Put(pod *v1.Pod) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := pod.DeepCopy()
	s.keep("pods", kept)
	return kept.DeepCopy()
}

// Edit changes a pod without a request.
func (s *Server) Edit(namespace, name string, edit func(*v1.Pod)) {
	pod := s.Pod(namespace, name)
	edit(pod)
	s.Put(pod)
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
	s.drop("pods", namespace, name)
}

// Events returns all events, sorted by name.
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

// keep stores an object, with the fields that the server sets. The caller holds mu.
func (s *Server) keep(resource string, object metav1.Object) {
	if object.GetUID() == "" {
		object.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.version)))
	}
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.Time{Time: time.Now().Truncate(time.Second)})
	}
	if object.GetGeneration() == 0 {
		object.SetGeneration(1)
	}
	s.store(resource, object.(runtime.Object))
}

// request is one request with the parts of its path.
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

func answer(w http.ResponseWriter, object any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			status = apierrors.NewInternalError(err)
		}
		failure := status.Status()
		failure.Kind, failure.APIVersion = "Status", "v1"
		w.WriteHeader(int(failure.Code))
		object = failure
	}
	_ = json.NewEncoder(w).Encode(object) // fails only if the client has left
}
