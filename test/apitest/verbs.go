package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// serve carries out a request for one object, and returns a copy of the object.
func (s *Server) serve(r request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if body, err = inJSON(body); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.call())
	if s.refuse != nil {
		if err := s.refuse(r.call()); err != nil {
			return nil, err
		}
	}
	if r.Method == http.MethodPost {
		return s.create(r, body)
	}
	stored := s.objects[key(r.resource, r.namespace, r.name)]
	if stored == nil {
		return nil, apierrors.NewNotFound(r.group(), r.name)
	}
	object := accessor(stored)
	switch r.Method {
	case http.MethodGet:
		return clone(object), nil
	case http.MethodPut:
		return s.update(r, object, body)
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
	for _, known := range resources {
		if known.name == r.resource {
			return accessor(known.blank.DeepCopyObject()), nil
		}
	}
	return nil, apierrors.NewNotFound(r.group(), r.name)
}

func clone(object metav1.Object) metav1.Object {
	return accessor(object.(runtime.Object).DeepCopyObject())
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
	return clone(object), nil
}

// patch honours the UID of a patch as a precondition.
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
		return nil, apierrors.NewConflict(r.group(), r.name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", after.GetUID(),
				object.GetUID()))
	}
	after = keepOthers(r.subresource, object, after)
	s.keep(r.resource, after)
	return clone(after), nil
}

// keepOthers drops changes that a patch may not make. A patch of a pod's status changes nothing else of the pod. A
// patch of a node's status may change everything but the spec. A patch of a node changes no status.
func keepOthers(subresource string, before, after metav1.Object) metav1.Object {
	status := subresource == "status"
	switch before := clone(before).(type) {
	case *v1.Pod:
		if status {
			before.Status = after.(*v1.Pod).Status
			return before
		}
	case *v1.Node:
		if after := after.(*v1.Node); status {
			after.Spec = before.Spec
		} else {
			after.Status = before.Status
		}
	}
	return after
}

// update replaces an object if the client has its current version.
func (s *Server) update(r request, object metav1.Object, body []byte) (any, error) {
	after, err := blank(r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, after); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if after.GetResourceVersion() != object.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.group(), r.name, errors.New("the object has been modified"))
	}
	s.keep(r.resource, after)
	return clone(after), nil
}

// remove deletes a pod on a node gracefully, and other objects at once.
func (s *Server) remove(r request, object metav1.Object, body []byte) (any, error) {
	var opts metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != object.GetUID() {
		return nil, apierrors.NewConflict(r.group(), r.name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, object.GetUID()))
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
		s.drop(r.resource, r.namespace, r.name)
		return clone(object), nil
	}
	pod = pod.DeepCopy() // the old object must not change, because watches share it
	ends := metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second)}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &ends, &grace
	pod.Generation++
	s.keep(r.resource, pod)
	return clone(pod), nil
}
