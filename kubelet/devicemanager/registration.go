package devicemanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// registrations serves the Registration service, and watches the plugins that registered.
type registrations struct {
	pluginapi.UnimplementedRegistrationServer
	manager *Manager
	// ctx ends when serve returns. serve waits for running.
	ctx     context.Context
	running sync.WaitGroup
}

// Run serves registrations until ctx ends. It does nothing without a directory.
func (m *Manager) Run(ctx context.Context) error {
	if m.opts.Dir == "" {
		return nil
	}
	if err := clearSockets(m.opts.Dir); err != nil {
		return fmt.Errorf("device plugins: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(m.opts.Dir, "kubelet.sock"))
	if err != nil {
		return fmt.Errorf("device plugins: %w", err)
	}
	return m.serve(ctx, listener)
}

// serve serves registrations until ctx ends or the listener fails. It then ends the connections to the plugins.
func (m *Manager) serve(ctx context.Context, listener net.Listener) error {
	plugins, end := context.WithCancel(ctx)
	defer end()
	server, r := grpc.NewServer(grpc.WaitForHandlers(true)), &registrations{manager: m, ctx: plugins}
	pluginapi.RegisterRegistrationServer(server, r)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	err := server.Serve(listener) // Serve removes the socket
	server.Stop()                 // waits for each Register, which may add to running
	end()
	r.running.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("device plugins: %w", err)
}

// clearSockets makes the directory, and removes the sockets in it, as the kubelet does. A plugin that watches its
// socket registers again.
func clearSockets(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if entry.Type() == fs.ModeSocket {
			if err := os.Remove(filepath.Join(dir, entry.Name())); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Register implements pluginapi.RegistrationServer. It answers before it connects to the plugin: many plugins begin to
// serve only after the answer.
func (r *registrations) Register(
	_ context.Context, request *pluginapi.RegisterRequest,
) (*pluginapi.Empty, error) {
	if err := check(request); err != nil {
		r.manager.opts.Event(true, "DevicePluginRefused", err.Error())
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	name := v1.ResourceName(request.GetResourceName())
	p, conn, err := connect(name, filepath.Join(r.manager.opts.Dir, request.GetEndpoint()))
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	p.options, p.number = request.GetOptions(), r.manager.number()
	ctx, end := context.WithCancelCause(r.ctx)
	p.end = end
	r.running.Go(func() {
		defer conn.Close()
		defer end(nil)
		if err := r.manager.watch(ctx, p); r.ctx.Err() == nil {
			r.manager.leave(p, cmp.Or(context.Cause(ctx), err))
		}
	})
	return &pluginapi.Empty{}, nil
}

// check refuses a registration that cannot be served.
func check(request *pluginapi.RegisterRequest) error {
	name, endpoint := request.GetResourceName(), request.GetEndpoint()
	switch {
	case !slices.Contains(pluginapi.SupportedVersions[:], request.GetVersion()):
		return fmt.Errorf("version: it is %q, want one of %q", request.GetVersion(), pluginapi.SupportedVersions)
	case !model.IsExtended(v1.ResourceName(name)):
		return fmt.Errorf("resource_name: %q is not an extended resource, such as example.com/card", name)
	case len(validation.IsQualifiedName(name)) > 0:
		return fmt.Errorf("resource_name: %q: %s", name, strings.Join(validation.IsQualifiedName(name), "; "))
	case endpoint == "" || endpoint != filepath.Base(endpoint) || endpoint == "." || endpoint == "..":
		return fmt.Errorf("endpoint: %q is not the name of a socket in the plugins' directory", endpoint)
	}
	return nil
}

// watch follows the devices of a plugin until it ends.
func (m *Manager) watch(ctx context.Context, p *plugin) error {
	late := time.AfterFunc(m.patience, func() { p.end(fmt.Errorf("it does not serve within %v", m.patience)) })
	defer late.Stop()
	stream, err := p.client.ListAndWatch(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	for {
		list, err := stream.Recv()
		if err != nil {
			return err
		}
		late.Stop()
		devices := map[string]bool{}
		for _, device := range list.GetDevices() {
			devices[device.GetID()] = device.GetHealth() == pluginapi.Healthy
		}
		if err := m.update(p, devices); err != nil {
			return err
		}
	}
}

// number returns the number of the next registration.
func (m *Manager) number() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.registered++
	return m.registered
}

// errReplaced ends a plugin when another plugin has registered the same resource later.
var errReplaced = errors.New("a later plugin of the resource has replaced it")

// update sets the devices of a plugin. A plugin's first list replaces an earlier plugin of the resource. The list of a
// plugin that was replaced is an error.
func (m *Manager) update(p *plugin, devices map[string]bool) error {
	m.mu.Lock()
	p.devices = devices
	earlier := m.plugins[p.name]
	if earlier != nil && earlier.number > p.number {
		m.mu.Unlock()
		return errReplaced
	}
	m.plugins[p.name] = p
	err := m.records.register(p.name)
	m.mu.Unlock()
	if earlier != p {
		if earlier != nil {
			earlier.end(errReplaced)
		}
		m.opts.Event(false, "DevicePluginRegistered", fmt.Sprintf("%s has %d devices", p.name, len(devices)))
	}
	m.opts.Changed()
	return err
}

// leave records the end of a plugin. Containers no longer get its devices.
func (m *Manager) leave(p *plugin, err error) {
	m.mu.Lock()
	p.gone = time.Now()
	current, listed := m.plugins[p.name] == p, p.devices != nil
	m.mu.Unlock()
	switch {
	case current:
		m.opts.Event(true, "DevicePluginGone", fmt.Sprintf("%s: %v", p.name, err))
		m.opts.Changed()
	case !listed:
		m.opts.Event(true, "DevicePluginGone",
			fmt.Sprintf("%s: the plugin registered and never listed its devices: %v", p.name, err))
	}
}
