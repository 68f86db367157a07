package apitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// serve does what a request asks for. What it returns is a copy.
func (s *Server) serve(r request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.call())
	if s.fail != nil {
		if err := s.fail(r.call()); err != nil {
			return nil, err
		}
	}
	if r.Method == http.MethodPost {
		return s.create(r, body)
	}
	object := s.objects[key(r.resource, r.namespace, r.name)]
	if object == nil {
		return nil, apierrors.NewNotFound(r.group(), r.name)
	}
	switch r.Method {
	case http.MethodGet:
		return clone(object)
	case http.MethodPatch:
		return s.patch(r, object, body)
	case http.MethodDelete:
		return s.remove(r, object, body)
	default:
		return nil, apierrors.NewMethodNotSupported(r.group(), r.Method)
	}
}

// blank is an empty object of a resource.
func blank(r request) (metav1.Object, error) {
	switch r.resource {
	case "pods":
		return &v1.Pod{}, nil
	case "events":
		return &v1.Event{}, nil
	default:
		return nil, apierrors.NewNotFound(r.group(), r.name)
	}
}

func clone(object metav1.Object) (metav1.Object, error) {
	switch object := object.(type) {
	case *v1.Pod:
		return object.DeepCopy(), nil
	case *v1.Event:
		return object.DeepCopy(), nil
	default:
		return nil, fmt.Errorf("unknown kind %T", object)
	}
}

func (s *Server) create(r request, body []byte) (any, error) {
	object, err := blank(r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object.SetNamespace(r.namespace)
	if object.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if s.objects[key(r.resource, r.namespace, object.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(r.group(), object.GetName())
	}
	object.SetUID("")
	object.SetGeneration(0)
	object.SetCreationTimestamp(metav1.Time{})
	object.SetDeletionTimestamp(nil)
	if pod, ok := object.(*v1.Pod); ok {
		pod.Status = v1.PodStatus{Phase: v1.PodPending}
	}
	s.keep(r.resource, object)
	return clone(object)
}

// patch honours the UID of a patch as a precondition; the status subresource changes nothing else.
func (s *Server) patch(r request, object metav1.Object, body []byte) (any, error) {
	if got := types.PatchType(r.Header.Get("Content-Type")); got != types.StrategicMergePatchType {
		return nil, apierrors.NewBadRequest("only strategic merge patches are understood, not " + string(got))
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	after, err := blank(r)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(before, body, after)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := json.Unmarshal(merged, after); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if after.GetUID() != object.GetUID() {
		return nil, apierrors.NewConflict(r.group(), r.name, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", after.GetUID(), object.GetUID()))
	}
	if pod, ok := object.(*v1.Pod); ok && r.subresource == "status" {
		changed := pod.DeepCopy()
		changed.Status = after.(*v1.Pod).Status
		after = changed
	}
	s.keep(r.resource, after)
	return clone(after)
}

// remove deletes gracefully a pod that is on a node, and everything else at once.
func (s *Server) remove(r request, object metav1.Object, body []byte) (any, error) {
	var opts metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != object.GetUID() {
		return nil, apierrors.NewConflict(r.group(), r.name, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, object.GetUID()))
	}
	pod, ok := object.(*v1.Pod)
	grace := int64(v1.DefaultTerminationGracePeriodSeconds)
	if ok && pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if opts.GracePeriodSeconds != nil {
		grace = *opts.GracePeriodSeconds
	}
	if !ok || pod.Spec.NodeName == "" || grace == 0 {
		delete(s.objects, key(r.resource, r.namespace, r.name))
		return clone(object)
	}
	ends := metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second)}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &ends, &grace
	pod.Generation++
	s.keep(r.resource, pod)
	return clone(pod)
}
