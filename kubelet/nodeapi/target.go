package nodeapi

import (
	"context"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// pod returns the pod that the path names. If two pods have the name, because one replaces the other, it returns the
// running pod. A UID in the path must be the pod's. The UID of a static pod's mirror pod is ignored, since the API
// server sets it.
func (s *API) pod(r *http.Request) (*v1.Pod, error) {
	namespace, name, uid := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("uid")
	var found *v1.Pod
	for _, pod := range s.Pods() {
		if pod.Namespace != namespace || pod.Name != name ||
			uid != "" && string(pod.UID) != uid && !model.IsStatic(pod) {
			continue
		}
		if found == nil || found.Status.Phase != v1.PodRunning {
			found = pod
		}
	}
	if found == nil {
		return nil, notFound("pod %q does not exist", name)
	}
	return found, nil
}

// container returns the runtime's id of the container that the path names. It must be running.
func (s *API) container(r *http.Request) (pod *v1.Pod, id string, err error) {
	if pod, err = s.pod(r); err != nil {
		return nil, "", err
	}
	name := r.PathValue("container")
	if spec, _ := model.FindContainer(&pod.Spec, name); spec == nil {
		return nil, "", notFound("container %q not found in pod %q", name, pod.Name)
	}
	status, err := s.runtime.PodStatus(r.Context(), pod.UID)
	if err != nil {
		return nil, "", err
	}
	if container := status.Container(name); container != nil && container.State == model.StateRunning {
		return pod, container.ID, nil
	}
	return nil, "", notFound("container not found (%q): it does not run%s", name,
		stateReason(model.FindStatus(&pod.Status, name)))
}

// sandbox returns the runtime's id of the pod's sandbox. It must be ready.
func (s *API) sandbox(ctx context.Context, pod *v1.Pod) (string, error) {
	status, err := s.runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		return "", err
	}
	sandbox := status.ReadySandbox()
	if sandbox == nil {
		return "", notFound("pod not found (%q): it does not run", model.FullName(pod))
	}
	return sandbox.ID, nil
}

// stateReason returns the reason why a container does not run, as " (reason)", or "" if there is none.
func stateReason(status *v1.ContainerStatus) string {
	reason := ""
	switch {
	case status == nil:
	case status.State.Waiting != nil:
		reason = status.State.Waiting.Reason
	case status.State.Terminated != nil:
		reason = status.State.Terminated.Reason
	}
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
