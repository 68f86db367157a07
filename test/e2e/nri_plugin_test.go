package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/criadapter/criadapter/internal/testutil"
)

// nriPlugin is an NRI plugin that subscribes to all events.
type nriPlugin struct {
	t    *testing.T
	stub stub.Stub

	// adjust, update and refuse answer requests; each may be nil. refuse gets the name of the request.
	adjust func(*api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error)
	update func(*api.Container, *api.LinuxResources) ([]*api.ContainerUpdate, error)
	refuse func(request string) error

	mu sync.Mutex
	// events are the requests with the names of the pods or containers. containers has the last description of each.
	events     []string
	containers map[string]*api.Container
	pods       map[string]*api.PodSandbox
	lost       bool
}

// startPlugin connects a plugin to the socket, and waits until the server has synchronized it.
func startPlugin(t *testing.T, socket, index, name string, p *nriPlugin) *nriPlugin {
	t.Helper()
	p.t, p.containers, p.pods = t, map[string]*api.Container{}, map[string]*api.PodSandbox{}
	var err error
	p.stub, err = stub.New(p, stub.WithPluginName(name), stub.WithPluginIdx(index), stub.WithSocketPath(socket),
		stub.WithOnClose(func() { p.mu.Lock(); p.lost = true; p.mu.Unlock() }))
	testutil.Must(t, err)
	testutil.Eventually(t, func() error { return p.stub.Start(t.Context()) })
	t.Cleanup(p.stub.Stop)
	testutil.Until(t, "the plugin is synchronized", func() bool { return p.saw("Synchronize") })
	return p
}

// adjusting returns a plugin that adjusts each container.
func adjusting(adjust func(c *api.Container, a *api.ContainerAdjustment)) *nriPlugin {
	return &nriPlugin{adjust: func(_ *api.PodSandbox, c *api.Container) (
		*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
		a := &api.ContainerAdjustment{}
		adjust(c, a)
		return a, nil, nil
	}}
}

func (p *nriPlugin) note(event string, pod *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := pod.GetName()
	if c != nil {
		name = c.GetName()
		if len(c.GetArgs()) > 0 {
			p.containers[name] = c
		}
	}
	if pod != nil {
		p.pods[event] = pod
	}
	p.events = append(p.events, strings.TrimSpace(event+" "+name))
	if p.refuse != nil {
		return p.refuse(event)
	}
	return nil
}

func (p *nriPlugin) saw(event string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.events, func(e string) bool { return e == event || strings.HasPrefix(e, event+" ") })
}

// seen returns all events, a line each.
func (p *nriPlugin) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.events, "\n")
}

func (p *nriPlugin) container(name string) *api.Container {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.containers[name]
}

func (p *nriPlugin) Configure(_ context.Context, config, runtime, _ string) (stub.EventMask, error) {
	return 0, p.note("Configure "+runtime+" "+config, nil, nil)
}

func (p *nriPlugin) Synchronize(
	_ context.Context, pods []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	var names []string
	for _, c := range containers {
		names = append(names, c.GetName())
	}
	return nil, p.note(fmt.Sprintf("Synchronize %d pods, containers %v", len(pods), names), nil, nil)
}

func (p *nriPlugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.note("RunPodSandbox", pod, nil)
}

func (p *nriPlugin) UpdatePodSandbox(
	_ context.Context, pod *api.PodSandbox, overhead, resources *api.LinuxResources,
) error {
	return p.note(fmt.Sprintf("UpdatePodSandbox %d %d", overhead.GetMemory().GetLimit().GetValue(),
		resources.GetMemory().GetLimit().GetValue()), pod, nil)
}

func (p *nriPlugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.note("PostUpdatePodSandbox", pod, nil)
}

func (p *nriPlugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.note("StopPodSandbox", pod, nil)
}

func (p *nriPlugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.note("RemovePodSandbox", pod, nil)
}

func (p *nriPlugin) CreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if err := p.note("CreateContainer", pod, c); err != nil || p.adjust == nil {
		return nil, nil, err
	}
	return p.adjust(pod, c)
}

func (p *nriPlugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.note("PostCreateContainer", pod, c)
}

func (p *nriPlugin) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.note("StartContainer", pod, c)
}

func (p *nriPlugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.note("PostStartContainer", pod, c)
}

func (p *nriPlugin) UpdateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources,
) ([]*api.ContainerUpdate, error) {
	if err := p.note("UpdateContainer", pod, c); err != nil || p.update == nil {
		return nil, err
	}
	return p.update(c, r)
}

func (p *nriPlugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.note("PostUpdateContainer", pod, c)
}

func (p *nriPlugin) StopContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) ([]*api.ContainerUpdate, error) {
	return nil, p.note("StopContainer", pod, c)
}

func (p *nriPlugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.note("RemoveContainer", pod, c)
}
