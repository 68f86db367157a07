package devicemanager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Options configure a Manager.
type Options struct {
	// Dir is the directory of the sockets. Empty means that no plugin can register.
	Dir string
	// RootDir is the directory of the files with the grants.
	RootDir string
	// Finished says whether a pod's containers have ended, and its volumes and cgroup are removed. Other pods may then
	// get its devices.
	Finished func(types.UID) bool
	// Changed is called after the devices of a plugin changed. It must not block.
	Changed func()
	// Event records an event of the node about a plugin.
	Event func(warning bool, reason, message string)
}

// Manager keeps the plugins with their devices, and assigns devices to containers. It is safe for concurrent use.
type Manager struct {
	opts Options
	// allocating is held while a container gets devices, so that containers get devices one after the other.
	allocating sync.Mutex
	// patience bounds the wait for a plugin's first list.
	patience time.Duration
	// opened is when this process began to wait for plugins.
	opened time.Time

	mu      sync.Mutex
	plugins map[v1.ResourceName]*plugin
	records records
	// registered counts the registrations.
	registered int
}

// goneAfter is how long the node still reports the capacity of a plugin after its end. Its devices are not allocatable
// meanwhile. After a restart, the node's status keeps the devices of the earlier process for five minutes, too.
// Otherwise the node would reject running pods with these devices until the plugin registers again.
const goneAfter = 5 * time.Minute

// Open reads the grants. An unreadable file is an error: otherwise a running container's devices could go to another
// container.
func Open(opts Options) (*Manager, error) {
	read, err := openRecords(opts.RootDir)
	if err != nil {
		return nil, err
	}
	return &Manager{opts: opts, patience: callTimeout, opened: time.Now(), plugins: map[v1.ResourceName]*plugin{},
		records: read}, nil
}

// Resources returns the plugins' resources for the node's status.
func (m *Manager) Resources() (capacity, allocatable v1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	capacity, allocatable = v1.ResourceList{}, v1.ResourceList{}
	if time.Since(m.opened) > goneAfter {
		for _, name := range m.records.resources {
			capacity[name], allocatable[name] = resource.Quantity{}, resource.Quantity{}
		}
	}
	for name, p := range m.plugins {
		all, healthy := len(p.devices), len(p.healthy())
		if !p.gone.IsZero() && time.Since(p.gone) > goneAfter {
			all = 0
		}
		capacity[name] = *resource.NewQuantity(int64(all), resource.DecimalSI)
		allocatable[name] = *resource.NewQuantity(int64(healthy), resource.DecimalSI)
	}
	return capacity, allocatable
}

// Keep drops the grants of pods that do not exist.
func (m *Manager) Keep(exists func(types.UID) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.records.grants.Keep(exists)
	return err
}

// request is a container's request for devices of one resource.
type request struct {
	pod       *v1.Pod
	container *v1.Container
	resource  v1.ResourceName
	count     int
}

// wanted says whether the container needs devices of a plugin. A resource that never had a plugin was added to the node
// by an administrator, and only the scheduler counts it. Static pods have no scheduler, so they always need a plugin.
func (m *Manager) wanted(r request, static bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return static || m.plugins[r.resource] != nil || slices.Contains(m.records.resources, r.resource)
}

// grant returns the grant of a container. It makes a new grant if the container has none, or has another number of
// devices.
func (m *Manager) grant(
	ctx context.Context, r request,
) (*plugin, *pluginapi.ContainerAllocateResponse, []string, error) {
	m.allocating.Lock()
	defer m.allocating.Unlock()
	m.mu.Lock()
	p := m.plugins[r.resource]
	known, found := m.records.find(r)
	m.mu.Unlock()
	if p == nil || !p.gone.IsZero() {
		return nil, nil, nil, m.noPlugin(r.resource)
	}
	if found && len(known.Devices) == r.count {
		response, err := known.response()
		return p, response, known.Devices, err
	}
	devices, err := m.choose(ctx, p, r)
	if err != nil {
		return nil, nil, nil, err
	}
	response, err := p.allocate(ctx, devices)
	if err != nil {
		return nil, nil, nil, err
	}
	made, err := newGrant(devices, response)
	if err != nil {
		return nil, nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return p, response, devices, m.records.set(r, made)
}

func (m *Manager) noPlugin(name v1.ResourceName) error {
	if m.opts.Dir == "" {
		return fmt.Errorf("resources.limits[%s]: device plugins are off: set --device-plugins-dir "+
			"of kubelet-core run to the directory of their sockets: %w", name, errdefs.ErrFailedPrecondition)
	}
	return fmt.Errorf("resources.limits[%s]: no device plugin has registered it in %s: %w", name, m.opts.Dir,
		errdefs.ErrUnavailable)
}

// choose returns free devices. It prefers devices of the pod's init containers, because an init container ends before
// the next container starts.
func (m *Manager) choose(ctx context.Context, p *plugin, r request) ([]string, error) {
	m.mu.Lock()
	taken, reusable := m.records.holders(r, m.opts.Finished)
	var reused, free []string
	for _, id := range p.healthy() {
		switch {
		case taken[id]:
		case reusable[id]:
			reused = append(reused, id)
		default:
			free = append(free, id)
		}
	}
	m.mu.Unlock()
	available := append(reused, free...)
	if len(available) < r.count {
		return nil, fmt.Errorf("resources.limits[%s]: %d devices are requested, and %d are free: %w", r.resource,
			r.count, len(available), errdefs.ErrResourceExhausted)
	}
	return p.preferred(ctx, available, reused[:min(len(reused), r.count)], r.count)
}
