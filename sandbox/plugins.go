package sandbox

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// Plugins are notified of each pod's life, and may refuse new pods and new limits. *nri.Service implements Plugins.
type Plugins interface {
	// Block keeps new plugins from joining until unblock is called.
	Block() (unblock func())
	// RunPod fails if a plugin refuses a new pod.
	RunPod(ctx context.Context, pod *state.Pod) error
	// UndoPod notifies the plugins that the pod of a RunPod call is rolled back, whether or not RunPod failed. Call it
	// only for a pod that the cache never had.
	UndoPod(ctx context.Context, pod *state.Pod)
	StopPod(ctx context.Context, pod *state.Pod)
	RemovePod(ctx context.Context, pod *state.Pod)
	// UpdatePod fails if a plugin refuses new limits.
	UpdatePod(ctx context.Context, pod *state.Pod, overhead, resources *runtimeapi.LinuxContainerResources) error
	PodUpdated(ctx context.Context, pod *state.Pod)
}

// withoutPlugins implements Plugins for a node without plugins.
type withoutPlugins struct{}

func (withoutPlugins) Block() func()                            { return func() {} }
func (withoutPlugins) RunPod(context.Context, *state.Pod) error { return nil }
func (withoutPlugins) UndoPod(context.Context, *state.Pod)      {}
func (withoutPlugins) StopPod(context.Context, *state.Pod)      {}
func (withoutPlugins) RemovePod(context.Context, *state.Pod)    {}
func (withoutPlugins) PodUpdated(context.Context, *state.Pod)   {}
func (withoutPlugins) UpdatePod(_ context.Context, _ *state.Pod, _, _ *runtimeapi.LinuxContainerResources) error {
	return nil
}
