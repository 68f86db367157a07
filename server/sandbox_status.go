package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// PodSandboxStatus returns one pod with its containers, from one snapshot.
func (s *Server) PodSandboxStatus(
	ctx context.Context, req *runtimeapi.PodSandboxStatusRequest,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	if err := require(need{"pod_sandbox_id", req.GetPodSandboxId() != ""}); err != nil {
		return nil, err
	}
	// The time is read before the snapshot, so that the snapshot is never older than its time (KEP-3386).
	now := time.Now()
	snapshot, pod, err := s.pod(ctx, req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	response := &runtimeapi.PodSandboxStatusResponse{Status: sandboxStatus(pod), Timestamp: now.UnixNano()}
	for _, container := range snapshot.ContainersOf(pod.ID) {
		response.ContainersStatuses = append(response.ContainersStatuses, containerStatus(container))
	}
	if req.GetVerbose() {
		response.Info, err = s.sandboxInfo(ctx, pod)
	}
	return response, err
}

func sandboxStatus(pod *state.Pod) *runtimeapi.PodSandboxStatus {
	return &runtimeapi.PodSandboxStatus{
		Id:        pod.ID,
		Metadata:  pod.Meta.Config.GetMetadata(),
		State:     pod.Status.State(),
		CreatedAt: nanoseconds(pod.Meta.CreatedAt),
		Network:   sandboxNetwork(pod),
		Linux: &runtimeapi.LinuxPodSandboxStatus{
			Namespaces: &runtimeapi.Namespace{Options: namespaceOptions(pod)}},
		Labels:         pod.Meta.Config.GetLabels(),
		Annotations:    pod.Meta.Config.GetAnnotations(),
		RuntimeHandler: pod.Meta.RuntimeHandler,
	}
}

// sandboxNetwork has no addresses for a pod on the node's network, because the kubelet knows the node's addresses.
func sandboxNetwork(pod *state.Pod) *runtimeapi.PodSandboxNetworkStatus {
	network := &runtimeapi.PodSandboxNetworkStatus{}
	if pod.Meta.HostNetwork || len(pod.Status.IPs) == 0 {
		return network
	}
	network.Ip = pod.Status.IPs[0]
	for _, ip := range pod.Status.IPs[1:] {
		network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
	return network
}

// namespaceOptions returns the options of the pod's configuration with the sandbox's real network mode. The kubelet
// makes a new sandbox if the mode differs from the pod's.
func namespaceOptions(pod *state.Pod) *runtimeapi.NamespaceOption {
	options := &runtimeapi.NamespaceOption{}
	if asked := pod.Meta.Config.GetLinux().GetSecurityContext().GetNamespaceOptions(); asked != nil {
		options = proto.CloneOf(asked)
	}
	options.Network = runtimeapi.NamespaceMode_POD
	if pod.Meta.HostNetwork {
		options.Network = runtimeapi.NamespaceMode_NODE
	}
	return options
}

// nanoseconds converts a time to CRI, where 0 stands for none.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
