package server

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// crowdedNode returns a node with the given number of containers, two in each pod. They have the labels that the
// kubelet sets. It also returns the ids of the last pod and container.
func crowdedNode(containers int) (n *node, podID, id string) {
	n = newNode()
	for i := range containers / 2 {
		podID = fmt.Sprintf("%064x", 1<<32+i)
		n.cache.PutPod(state.Pod{
			ID: podID,
			Meta: state.PodMeta{CreatedAt: time.Unix(int64(i), 1), Config: &runtimeapi.PodSandboxConfig{
				Metadata: &runtimeapi.PodSandboxMetadata{Name: podID[:12], Namespace: "default", Uid: podID[:32]},
				Labels: map[string]string{"app": "web", "io.kubernetes.pod.name": podID[:12],
					"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": podID[:32]},
				Annotations: map[string]string{"kubernetes.io/config.source": "api"},
			}},
			Status: state.PodStatus{Running: true, NetworkReady: true, IPs: []string{"10.0.0.2"}},
		})
		for j := range 2 {
			id = fmt.Sprintf("%064x", 2*i+j)
			n.cache.PutContainer(state.Container{
				ID: id, SandboxID: podID,
				Meta: state.ContainerMeta{ImageID: "sha256:" +
					podID, CreatedAt: time.Unix(int64(i), int64(j)), Config: &runtimeapi.ContainerConfig{
					Metadata: &runtimeapi.ContainerMetadata{Name: fmt.Sprint(j)},
					Image:    &runtimeapi.ImageSpec{Image: "busybox"},
					Labels: map[string]string{"io.kubernetes.container.name": fmt.Sprint(j),
						"io.kubernetes.pod.name": podID[:12], "io.kubernetes.pod.namespace": "default",
						"io.kubernetes.pod.uid": podID[:32]},
				}},
				Status: state.ContainerStatus{Running: true},
			})
		}
	}
	return n, podID, id
}

// BenchmarkListContainers measures the list alone, and with "encoded" also the encoding of the response.
func BenchmarkListContainers(b *testing.B) {
	for _, size := range []int{1000, 10000} {
		n, _, _ := crowdedNode(size)
		for _, encode := range []bool{false, true} {
			b.Run(fmt.Sprintf("containers=%d/encoded=%t", size, encode), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					response, err := n.ListContainers(b.Context(), &runtimeapi.ListContainersRequest{})
					testutil.Require(b, err == nil && len(response.GetContainers()) == size, "%v", err)
					if encode {
						_, err := proto.Marshal(response)
						testutil.Must(b, err)
					}
				}
			})
		}
	}
}

func BenchmarkPodSandboxStatus(b *testing.B) {
	n, id, _ := crowdedNode(1000)
	b.ReportAllocs()
	for b.Loop() {
		_, err := n.PodSandboxStatus(b.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
		testutil.Must(b, err)
	}
}

func BenchmarkContainerStatus(b *testing.B) {
	n, _, id := crowdedNode(1000)
	b.ReportAllocs()
	for b.Loop() {
		_, err := n.ContainerStatus(b.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		testutil.Must(b, err)
	}
}
