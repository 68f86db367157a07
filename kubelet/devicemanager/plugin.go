package devicemanager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// callTimeout bounds a call of a plugin. It is the kubelet's timeout for PreStartContainer.
const callTimeout = pluginapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second

// plugin is a registered plugin. Manager.mu guards devices and gone.
type plugin struct {
	name    v1.ResourceName
	client  pluginapi.DevicePluginClient
	options *pluginapi.DevicePluginOptions
	// number is the number of its registration. A later registration has a higher number.
	number int
	// end ends the connection. Its argument is the reason.
	end context.CancelCauseFunc

	// devices maps ids to health, and is nil before the first list. gone is the time when the plugin ended.
	devices map[string]bool
	gone    time.Time
}

// connect connects to a plugin's socket.
func connect(name v1.ResourceName, socket string) (*plugin, *grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	return &plugin{name: name, client: pluginapi.NewDevicePluginClient(conn)}, conn, nil
}

// healthy returns the ids of healthy devices, sorted. A plugin that is gone has none.
func (p *plugin) healthy() []string {
	if !p.gone.IsZero() {
		return nil
	}
	var ids []string
	for id, healthy := range p.devices {
		if healthy {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// allocate prepares devices.
func (p *plugin) allocate(ctx context.Context, devices []string) (*pluginapi.ContainerAllocateResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := p.client.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: devices}}})
	if err != nil {
		return nil, pluginError(p.name, "Allocate", err)
	}
	if got := len(response.GetContainerResponses()); got != 1 {
		return nil, pluginError(p.name, "Allocate",
			fmt.Errorf("the response has %d container_responses, want 1: %w", got, errdefs.ErrInternal))
	}
	return response.GetContainerResponses()[0], nil
}

// preStart resets devices before a container starts, if the plugin wants that.
func (p *plugin) preStart(ctx context.Context, devices []string) error {
	if !p.options.GetPreStartRequired() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := p.client.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: devices})
	if err != nil {
		return pluginError(p.name, "PreStartContainer", err)
	}
	return nil
}

// preferred returns the plugin's choice of available devices. If the plugin makes no choice, or an impossible one,
// preferred returns the first count devices. available begins with the devices in must, so these are among the first.
func (p *plugin) preferred(ctx context.Context, available, must []string, count int) ([]string, error) {
	first := available[:count]
	if !p.options.GetGetPreferredAllocationAvailable() || len(available) == count {
		return first, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := p.client.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: available, MustIncludeDeviceIDs: must, AllocationSize: int32(count),
		}}})
	if err != nil {
		return nil, pluginError(p.name, "GetPreferredAllocation", err)
	}
	for _, choice := range response.GetContainerResponses() {
		if chosen := choice.GetDeviceIDs(); possible(chosen, available, must, count) {
			return chosen, nil
		}
	}
	return first, nil
}

// possible says whether a choice has count different devices, all of them available, and includes the devices in must.
func possible(chosen, available, must []string, count int) bool {
	sorted := slices.Compact(slices.Sorted(slices.Values(chosen)))
	if len(sorted) != count || len(chosen) != count {
		return false
	}
	return isSubset(chosen, available) && isSubset(must, chosen)
}

// isSubset says whether all has every element of part.
func isSubset(part, all []string) bool {
	return !slices.ContainsFunc(part, func(id string) bool { return !slices.Contains(all, id) })
}
