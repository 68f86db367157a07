package metrics

import (
	"context"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime returns a runtime service that measures each call of the kubelet core, except GetContainerEvents.
func (m *Metrics) Runtime(of internalapi.RuntimeService) internalapi.RuntimeService {
	return measuredRuntime{of, m}
}

// Images returns an image service whose calls are measured.
func (m *Metrics) Images(of internalapi.ImageManagerService) internalapi.ImageManagerService {
	return measuredImages{of, m}
}

type measuredRuntime struct {
	internalapi.RuntimeService
	m *Metrics
}

type measuredImages struct {
	internalapi.ImageManagerService
	m *Metrics
}

func (r measuredRuntime) Version(
	ctx context.Context, apiVersion string,
) (answer *runtimeapi.VersionResponse, err error) {
	defer r.m.operation("version")(&err)
	return r.RuntimeService.Version(ctx, apiVersion)
}

func (r measuredRuntime) CreateContainer(
	ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig,
) (answer string, err error) {
	defer r.m.operation("create_container")(&err)
	return r.RuntimeService.CreateContainer(ctx, sandbox, config, pod)
}

func (r measuredRuntime) StartContainer(ctx context.Context, id string) (err error) {
	defer r.m.operation("start_container")(&err)
	return r.RuntimeService.StartContainer(ctx, id)
}

func (r measuredRuntime) StopContainer(ctx context.Context, id string, timeout int64) (err error) {
	defer r.m.operation("stop_container")(&err)
	return r.RuntimeService.StopContainer(ctx, id, timeout)
}

func (r measuredRuntime) RemoveContainer(ctx context.Context, id string) (err error) {
	defer r.m.operation("remove_container")(&err)
	return r.RuntimeService.RemoveContainer(ctx, id)
}

func (r measuredRuntime) ListContainers(
	ctx context.Context, filter *runtimeapi.ContainerFilter,
) (answer []*runtimeapi.Container, err error) {
	defer r.m.operation("list_containers")(&err)
	return r.RuntimeService.ListContainers(ctx, filter)
}

func (r measuredRuntime) ContainerStatus(
	ctx context.Context, id string, verbose bool,
) (answer *runtimeapi.ContainerStatusResponse, err error) {
	defer r.m.operation("container_status")(&err)
	return r.RuntimeService.ContainerStatus(ctx, id, verbose)
}

func (r measuredRuntime) ContainerStats(
	ctx context.Context, id string,
) (answer *runtimeapi.ContainerStats, err error) {
	defer r.m.operation("container_stats")(&err)
	return r.RuntimeService.ContainerStats(ctx, id)
}

func (r measuredRuntime) UpdateContainerResources(
	ctx context.Context, id string, resources *runtimeapi.ContainerResources,
) (err error) {
	defer r.m.operation("update_container")(&err)
	return r.RuntimeService.UpdateContainerResources(ctx, id, resources)
}

func (r measuredRuntime) Exec(
	ctx context.Context, request *runtimeapi.ExecRequest,
) (answer *runtimeapi.ExecResponse, err error) {
	defer r.m.operation("exec")(&err)
	return r.RuntimeService.Exec(ctx, request)
}

func (r measuredRuntime) Attach(
	ctx context.Context, request *runtimeapi.AttachRequest,
) (answer *runtimeapi.AttachResponse, err error) {
	defer r.m.operation("attach")(&err)
	return r.RuntimeService.Attach(ctx, request)
}

func (r measuredRuntime) ReopenContainerLog(ctx context.Context, id string) (err error) {
	defer r.m.operation("reopen_container_log")(&err)
	return r.RuntimeService.ReopenContainerLog(ctx, id)
}

func (r measuredRuntime) RunPodSandbox(
	ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string,
) (answer string, err error) {
	defer r.m.operation("run_podsandbox")(&err)
	return r.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (r measuredRuntime) StopPodSandbox(ctx context.Context, id string) (err error) {
	defer r.m.operation("stop_podsandbox")(&err)
	return r.RuntimeService.StopPodSandbox(ctx, id)
}

func (r measuredRuntime) RemovePodSandbox(ctx context.Context, id string) (err error) {
	defer r.m.operation("remove_podsandbox")(&err)
	return r.RuntimeService.RemovePodSandbox(ctx, id)
}

func (r measuredRuntime) PodSandboxStatus(
	ctx context.Context, id string, verbose bool,
) (answer *runtimeapi.PodSandboxStatusResponse, err error) {
	defer r.m.operation("podsandbox_status")(&err)
	return r.RuntimeService.PodSandboxStatus(ctx, id, verbose)
}

func (r measuredRuntime) ListPodSandbox(
	ctx context.Context, filter *runtimeapi.PodSandboxFilter,
) (answer []*runtimeapi.PodSandbox, err error) {
	defer r.m.operation("list_podsandbox")(&err)
	return r.RuntimeService.ListPodSandbox(ctx, filter)
}

func (r measuredRuntime) PortForward(
	ctx context.Context, request *runtimeapi.PortForwardRequest,
) (answer *runtimeapi.PortForwardResponse, err error) {
	defer r.m.operation("port_forward")(&err)
	return r.RuntimeService.PortForward(ctx, request)
}

func (r measuredRuntime) UpdatePodSandboxResources(
	ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest,
) (answer *runtimeapi.UpdatePodSandboxResourcesResponse, err error) {
	defer r.m.operation("update_podsandbox_resources")(&err)
	return r.RuntimeService.UpdatePodSandboxResources(ctx, request)
}

func (r measuredRuntime) ListPodSandboxStats(
	ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter,
) (answer []*runtimeapi.PodSandboxStats, err error) {
	defer r.m.operation("list_podsandbox_stats")(&err)
	return r.RuntimeService.ListPodSandboxStats(ctx, filter)
}

func (r measuredRuntime) ListMetricDescriptors(
	ctx context.Context,
) (answer []*runtimeapi.MetricDescriptor, err error) {
	defer r.m.operation("list_metric_descriptors")(&err)
	return r.RuntimeService.ListMetricDescriptors(ctx)
}

func (r measuredRuntime) ListPodSandboxMetrics(
	ctx context.Context,
) (answer []*runtimeapi.PodSandboxMetrics, err error) {
	defer r.m.operation("list_podsandbox_metrics")(&err)
	return r.RuntimeService.ListPodSandboxMetrics(ctx)
}

func (r measuredRuntime) Status(ctx context.Context, verbose bool) (answer *runtimeapi.StatusResponse, err error) {
	defer r.m.operation("status")(&err)
	return r.RuntimeService.Status(ctx, verbose)
}

func (r measuredRuntime) RuntimeConfig(ctx context.Context) (answer *runtimeapi.RuntimeConfigResponse, err error) {
	defer r.m.operation("runtime_config")(&err)
	return r.RuntimeService.RuntimeConfig(ctx)
}

func (r measuredRuntime) ExecSync(
	ctx context.Context, id string, command []string, timeout time.Duration,
) (stdout, stderr []byte, err error) {
	defer r.m.operation("exec_sync")(&err)
	return r.RuntimeService.ExecSync(ctx, id, command, timeout)
}

func (r measuredImages) ListImages(
	ctx context.Context, filter *runtimeapi.ImageFilter,
) (answer []*runtimeapi.Image, err error) {
	defer r.m.operation("list_images")(&err)
	return r.ImageManagerService.ListImages(ctx, filter)
}

func (r measuredImages) ImageStatus(
	ctx context.Context, image *runtimeapi.ImageSpec, verbose bool,
) (answer *runtimeapi.ImageStatusResponse, err error) {
	defer r.m.operation("image_status")(&err)
	return r.ImageManagerService.ImageStatus(ctx, image, verbose)
}

func (r measuredImages) PullImage(
	ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, pod *runtimeapi.PodSandboxConfig,
) (answer string, err error) {
	defer r.m.operation("pull_image")(&err)
	return r.ImageManagerService.PullImage(ctx, image, auth, pod)
}

func (r measuredImages) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) (err error) {
	defer r.m.operation("remove_image")(&err)
	return r.ImageManagerService.RemoveImage(ctx, image)
}

func (r measuredImages) ImageFsInfo(ctx context.Context) (answer *runtimeapi.ImageFsInfoResponse, err error) {
	defer r.m.operation("image_fs_info")(&err)
	return r.ImageManagerService.ImageFsInfo(ctx)
}
