package podspec

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/userns"
)

// userNamespace is the user namespace of a pod that is to have one, nil for that of the host.
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

// mapMounts has files belong to the users in the container to whom they belong on the host: without it all of them
// would be nobody's. The runtime maps an image's by itself.
func mapMounts(mounts []*runtimeapi.Mount, users *runtimeapi.UserNamespace) {
	for _, mount := range mounts {
		if users != nil && mount.GetImage() == nil {
			mount.UidMappings, mount.GidMappings = users.GetUids(), users.GetGids()
		}
	}
}
