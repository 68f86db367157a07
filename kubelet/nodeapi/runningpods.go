package nodeapi

import (
	"context"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// runningPods answers with the runtime's running pods and the names of their containers, including pods that the
// kubelet does not want.
func (s *API) runningPods(w http.ResponseWriter, r *http.Request) {
	pods, err := s.listRunning(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, r, podList(pods))
}

func (s *API) listRunning(ctx context.Context) ([]*v1.Pod, error) {
	sandboxes, err := s.runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		LabelSelector: s.Selector,
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		return nil, err
	}
	containers, err := s.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		LabelSelector: s.Selector,
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return nil, err
	}
	var pods []*v1.Pod
	byUID := map[string]*v1.Pod{}
	get := func(labels map[string]string) *v1.Pod {
		uid := labels[model.LabelPodUID]
		pod := byUID[uid]
		if pod == nil {
			pod = &v1.Pod{}
			pod.Namespace, pod.Name, pod.UID = labels[model.LabelPodNamespace], labels[model.LabelPodName], types.UID(
				uid)
			byUID[uid] = pod
			pods = append(pods, pod)
		}
		return pod
	}
	for _, sandbox := range sandboxes {
		get(sandbox.GetLabels())
	}
	for _, container := range containers {
		pod := get(container.GetLabels())
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: container.GetLabels()[model.LabelContainerName], Image: container.GetImage().GetUserSpecifiedImage(),
		})
	}
	return pods, nil
}
