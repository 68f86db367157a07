package podspec

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/userns"
)

// userNamespace returns the pod's user namespace, or nil for the host's.
func (g *Generator) userNamespace(ctx context.Context, pod *v1.Pod) (*runtimeapi.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return nil, nil
	}
	first, err := g.opts.FirstUserID(ctx, pod)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids(first), Gids: ids(first)}, nil
}

func ids(first uint32) []*runtimeapi.IDMapping {
	return []*runtimeapi.IDMapping{{HostId: first, Length: userns.Length}}
}

// mapMounts requests id-mapped mounts, as in the kubelet: files have the same ids in the container as on the host.
// Without a mapping the overflow id would own the files in the container.
func mapMounts(mounts []*runtimeapi.Mount, users *runtimeapi.UserNamespace) {
	for _, mount := range mounts {
		if users != nil {
			mount.UidMappings, mount.GidMappings = users.GetUids(), users.GetGids()
		}
	}
}
