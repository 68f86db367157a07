// Package devicemanagertest is a device plugin for tests, with devices that need no hardware.
package devicemanagertest

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Plugin serves one resource. A container with the devices a and b has the variable CARDS=a,b and the files /dev/card-a
// and /dev/card-b. Each file is the machine's /dev/null.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer

	resource string
	options  *pluginapi.DevicePluginOptions
	server   *grpc.Server
	changes  chan []*pluginapi.Device

	mu    sync.Mutex
	calls []string
}

// Start serves a plugin in a directory, and registers it with its devices. It ends with the test.
func Start(t *testing.T, dir, resource string, options *pluginapi.DevicePluginOptions, devices ...string) *Plugin {
	t.Helper()
	p := &Plugin{resource: resource, options: options, server: grpc.NewServer(),
		changes: make(chan []*pluginapi.Device, 8)}
	socket := strings.ReplaceAll(resource, "/", "_") + ".sock"
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	testutil.Must(t, err)
	pluginapi.RegisterDevicePluginServer(p.server, p)
	ended := testutil.Go(func() error { return p.server.Serve(listener) })
	t.Cleanup(func() {
		p.Stop()
		testutil.Must(t, <-ended)
	})
	p.Set(devices...)
	testutil.Must(t, Register(t.Context(), dir, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: socket, ResourceName: resource, Options: options}))
	return p
}

// Register sends a registration.
func Register(ctx context.Context, dir string, request *pluginapi.RegisterRequest) error {
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, request, grpc.WaitForReady(true))
	return err
}

// Stop ends the plugin.
func (p *Plugin) Stop() { p.server.Stop() }

// Set replaces the devices. An id that begins with ! is an unhealthy device.
func (p *Plugin) Set(devices ...string) {
	var list []*pluginapi.Device
	for _, id := range devices {
		device := &pluginapi.Device{ID: id, Health: pluginapi.Healthy}
		if sick, ok := strings.CutPrefix(id, "!"); ok {
			device = &pluginapi.Device{ID: sick, Health: pluginapi.Unhealthy}
		}
		list = append(list, device)
	}
	p.changes <- list
}

// Calls returns the plugin's calls since the last Calls, such as "Allocate a,b".
func (p *Plugin) Calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	return calls
}

func (p *Plugin) called(name string, devices []string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	joined := strings.Join(devices, ",")
	p.calls = append(p.calls, name+" "+joined)
	return joined
}

// GetDevicePluginOptions implements pluginapi.DevicePluginServer.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return p.options, nil
}

// ListAndWatch implements pluginapi.DevicePluginServer.
func (p *Plugin) ListAndWatch(
	_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse],
) error {
	for {
		select {
		case devices := <-p.changes:
			if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// GetPreferredAllocation implements pluginapi.DevicePluginServer. It prefers the last devices.
func (p *Plugin) GetPreferredAllocation(
	_ context.Context, request *pluginapi.PreferredAllocationRequest,
) (*pluginapi.PreferredAllocationResponse, error) {
	response := &pluginapi.PreferredAllocationResponse{}
	for _, r := range request.GetContainerRequests() {
		chosen := slices.Clone(r.GetMustIncludeDeviceIDs())
		for _, id := range slices.Backward(slices.Sorted(slices.Values(r.GetAvailableDeviceIDs()))) {
			if len(chosen) < int(r.GetAllocationSize()) && !slices.Contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
		response.ContainerResponses = append(response.ContainerResponses,
			&pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return response, nil
}

// Allocate implements pluginapi.DevicePluginServer.
func (p *Plugin) Allocate(
	_ context.Context, request *pluginapi.AllocateRequest,
) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	for _, r := range request.GetContainerRequests() {
		granted := &pluginapi.ContainerAllocateResponse{
			Envs:        map[string]string{"CARDS": p.called("Allocate", r.GetDevicesIds())},
			Annotations: map[string]string{"example.com/cards": "yes"},
			Mounts:      []*pluginapi.Mount{{ContainerPath: "/cards", HostPath: "/proc/sys", ReadOnly: true}},
		}
		for _, id := range r.GetDevicesIds() {
			granted.Devices = append(granted.Devices,
				&pluginapi.DeviceSpec{ContainerPath: "/dev/card-" + id, HostPath: "/dev/null", Permissions: "rw"})
		}
		response.ContainerResponses = append(response.ContainerResponses, granted)
	}
	return response, nil
}

// PreStartContainer implements pluginapi.DevicePluginServer.
func (p *Plugin) PreStartContainer(
	_ context.Context, request *pluginapi.PreStartContainerRequest,
) (*pluginapi.PreStartContainerResponse, error) {
	p.called("PreStartContainer", request.GetDevicesIds())
	return &pluginapi.PreStartContainerResponse{}, nil
}
