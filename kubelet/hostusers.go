package kubelet

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/userns"
)

// hostUsers gives ids to pods with hostUsers: false, if the runtime reports support for user namespaces.
type hostUsers struct {
	ids     *userns.Manager
	runtime *cri.Runtime
	// handler returns the runtime handler of a RuntimeClass.
	handler func(ctx context.Context, class string) (string, error)
}

// first returns the pod's first id on the host. It allocates ids to a pod without ids.
func (h *hostUsers) first(ctx context.Context, pod *v1.Pod) (uint32, error) {
	if id, found := h.ids.Find(pod.UID); found {
		return id, nil
	}
	handler := ""
	if class := pod.Spec.RuntimeClassName; class != nil && *class != "" {
		var err error
		if handler, err = h.handler(ctx, *class); err != nil {
			return 0, err
		}
	}
	can, err := h.runtime.UserNamespaces(ctx, handler)
	if err != nil {
		return 0, fmt.Errorf("spec.hostUsers: features of the container runtime: %w", err)
	}
	if !can {
		return 0, fmt.Errorf(
			"spec.hostUsers: the container runtime does not announce user namespaces for its handler %q; "+
				"use another runtime or hostUsers: true: %w", handler, errdefs.ErrNotImplemented)
	}
	return h.ids.Allocate(pod.UID)
}
