package adapter

import (
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestFrontAsksForAKubeletsNamespaces: requests without namespace options get a kubelet's, and nothing else changes.
func TestFrontAsksForAKubeletsNamespaces(t *testing.T) {
	const run = runtimeapi.RuntimeService_RunPodSandbox_FullMethodName
	const create = runtimeapi.RuntimeService_CreateContainer_FullMethodName
	pod := func(options *runtimeapi.NamespaceOption) *runtimeapi.PodSandboxConfig {
		return &runtimeapi.PodSandboxConfig{Hostname: "web", Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: options},
		}}
	}
	container := func(options *runtimeapi.NamespaceOption) *runtimeapi.ContainerConfig {
		return &runtimeapi.ContainerConfig{LogPath: "log", Linux: &runtimeapi.LinuxContainerConfig{
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: options},
		}}
	}
	alone := func() *runtimeapi.NamespaceOption {
		return &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	}
	shared := func() *runtimeapi.NamespaceOption { return &runtimeapi.NamespaceOption{} }
	host := func() *runtimeapi.NamespaceOption {
		return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}
	}
	for name, tt := range map[string]struct {
		method        string
		request, want proto.Message
	}{
		"a pod that asks for nothing": {run,
			&runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{Hostname: "web"}},
			&runtimeapi.RunPodSandboxRequest{Config: pod(alone())}},
		"a pod that shares": {run, &runtimeapi.RunPodSandboxRequest{Config: pod(shared()), RuntimeHandler: "runc"},
			&runtimeapi.RunPodSandboxRequest{Config: pod(shared()), RuntimeHandler: "runc"}},
		"a pod without a configuration": {run, &runtimeapi.RunPodSandboxRequest{}, &runtimeapi.RunPodSandboxRequest{}},
		"a container in a pod that asks for nothing": {create,
			&runtimeapi.CreateContainerRequest{Config: container(nil), SandboxConfig: pod(nil)},
			&runtimeapi.CreateContainerRequest{Config: container(alone()), SandboxConfig: pod(alone())}},
		"a container in a pod that shares": {create,
			&runtimeapi.CreateContainerRequest{Config: container(nil), SandboxConfig: pod(host())},
			&runtimeapi.CreateContainerRequest{Config: container(nil), SandboxConfig: pod(host())}},
		"another request": {"/runtime.v1.RuntimeService/Version", &runtimeapi.VersionRequest{Version: "v1"},
			&runtimeapi.VersionRequest{Version: "v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := proto.Marshal(tt.request)
			testutil.Must(t, err)
			got, err := likeAKubelets(tt.method, request)
			testutil.Must(t, err)
			edited := tt.want.ProtoReflect().New().Interface()
			err = proto.Unmarshal(got, edited)
			testutil.Assert(t, err == nil && proto.Equal(edited, tt.want), "got %v, %v, want %v", edited, err, tt.want)
		})
	}
	_, err := likeAKubelets(run, []byte{0xff})
	testutil.Assert(t, err != nil, "bytes that are no request are edited")
}
