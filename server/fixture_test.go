package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/container"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
	"github.com/criadapter/criadapter/test/grpctest"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard) // each request logs a line; the tests of the log read it
	os.Exit(m.Run())
}

// node has services in memory. They change its cache, as the real services do.
type node struct {
	*Server
	cache    *cache
	engine   *engine
	network  *network
	images   *images
	services *services
}

func newNode() *node {
	m := &cache{Cache: state.New(state.Options{})}
	n := &node{
		cache: m,
		engine: &engine{features: docker.Features{
			ServerVersion:    "20.10.24",
			APIVersion:       "1.41",
			CgroupDriver:     "systemd",
			Runtimes:         []string{"io.containerd.runc.v2", "runc"},
			DefaultRuntime:   "runc",
			NegativeOOMScore: true,
		}},
		network:  &network{},
		images:   &images{present: map[string]bool{}},
		services: &services{cache: m},
	}
	n.Server = New(Options{
		Cache:      m,
		Engine:     n.engine,
		Sandboxes:  sandboxes{n.services},
		Containers: containers{n.services},
		Images:     n.images,
		Stats:      fakeStats{},
		Streams:    sessions{},
		Network:    n.network,
	})
	return n
}

// dial serves the node and returns a connection to it.
func (n *node) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	grpctest.Serve(t, listener, n.Register, n.GRPCOptions()...)
	conn, err := grpc.NewClient("passthrough:///node",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	testutil.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// cache is a cache without an engine. It is complete unless unsynced is set.
type cache struct {
	*state.Cache
	err      error
	unsynced bool
	// synced is closed to end unsynced.
	synced chan struct{}
}

func (c *cache) Err() error { return c.err }

func (c *cache) WaitSynced(ctx context.Context) error {
	if !c.unsynced {
		return nil
	}
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type engine struct {
	features docker.Features
	err      error
}

func (e *engine) Features(context.Context) (docker.Features, error) { return e.features, e.err }

type network struct{ err error }

func (n *network) Status(context.Context) error { return n.err }

func (n *network) Config() cni.Config { return cni.Config{Name: "test-net"} }

// images manages images by name. An image's id is its name.
type images struct {
	mu      sync.Mutex
	present map[string]bool
	err     error
}

func (i *images) Pull(_ context.Context, spec *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil {
		return "", i.err
	}
	i.present[spec.GetImage()] = true
	return spec.GetImage(), nil
}

func (i *images) List(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var list []*runtimeapi.Image
	for name := range i.present {
		list = append(list, &runtimeapi.Image{Id: name, Size: 1})
	}
	return list, i.err
}

func (i *images) Status(
	_ context.Context, spec *runtimeapi.ImageSpec, _ image.StatusOptions,
) (*runtimeapi.ImageStatusResponse, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil || !i.present[spec.GetImage()] {
		return &runtimeapi.ImageStatusResponse{}, i.err
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: spec.GetImage(), Size: 1}}, nil
}

func (i *images) Remove(_ context.Context, spec *runtimeapi.ImageSpec) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.present, spec.GetImage())
	return i.err
}

func (i *images) FsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{}, i.err
}

// services creates and ends pods and containers in the cache.
type services struct {
	cache *cache
	mu    sync.Mutex
	made  int
	// before is called first by each method of sandboxes and containers, except LeavePod. An error of before ends the
	// method. It may be nil.
	before func(ctx context.Context) error
}

func (r *services) enter(ctx context.Context) error {
	if r.before == nil {
		return nil
	}
	return r.before(ctx)
}

// change changes the cache, unless before fails.
func (r *services) change(ctx context.Context, change func()) error {
	err := r.enter(ctx)
	if err == nil {
		change()
	}
	return err
}

func (r *services) nextID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	return fmt.Sprintf("%064x", r.made)
}

type sandboxes struct{ *services }

func (s sandboxes) Run(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	pod := state.Pod{
		ID:     s.nextID(),
		Meta:   state.PodMeta{Config: config, RuntimeHandler: handler, CreatedAt: time.Unix(1, 1)},
		Status: state.PodStatus{Running: true, NetworkReady: true, PID: 4321, IPs: []string{"10.0.0.2"}},
	}
	s.cache.PutPod(pod)
	return pod.ID, nil
}

func (s sandboxes) Stop(ctx context.Context, id string) error {
	return s.change(ctx, func() {
		s.cache.UpdatePod(id, func(st *state.PodStatus) { st.Running, st.Stopping = false, true })
	})
}

func (s sandboxes) Remove(ctx context.Context, id string) error {
	return s.change(ctx, func() { s.cache.RemovePod(id) })
}

func (s sandboxes) UpdateResources(
	ctx context.Context, id string, overhead, resources *runtimeapi.LinuxContainerResources,
) error {
	return s.change(ctx, func() {
		s.cache.UpdatePod(id, func(st *state.PodStatus) { st.Overhead, st.Resources = overhead, resources })
	})
}

func (s sandboxes) Checkpoint(ctx context.Context, _, _ string, _ []string) error {
	return s.enter(ctx)
}

func (s sandboxes) Restore(
	ctx context.Context, _ string, config *runtimeapi.PodSandboxConfig, handler string, _ []*runtimeapi.ContainerConfig,
) (string, map[string]string, error) {
	id, err := s.Run(ctx, config, handler)
	return id, nil, err
}

type containers struct{ *services }

func (c containers) Checkpoint(ctx context.Context, _, _ string) error { return c.enter(ctx) }

// CheckpointAll, LeavePod, RemoveUnfinished and Restore are called by sandbox.Service.
func (c containers) CheckpointAll(ctx context.Context, _ string, _ []string, _ string) error {
	return c.enter(ctx)
}

func (c containers) LeavePod(*state.Pod) func(bool) { return func(bool) {} }

func (c containers) RemoveUnfinished(ctx context.Context, _ string) error { return c.enter(ctx) }

func (c containers) Restore(
	ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, podConfig *runtimeapi.PodSandboxConfig,
	_ string,
) (string, error) {
	return c.Create(ctx, sandboxID, config, podConfig)
}

func (c containers) Create(
	ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, _ *runtimeapi.PodSandboxConfig,
) (string, error) {
	if err := c.enter(ctx); err != nil {
		return "", err
	}
	made := state.Container{
		ID:        c.nextID(),
		SandboxID: sandboxID,
		Meta: state.ContainerMeta{Config: config, ImageID: "sha256:1", CreatedAt: time.Unix(2, 2),
			StopSignal: "SIGTERM"},
	}
	c.cache.PutContainer(made)
	return made.ID, nil
}

func (c containers) Start(ctx context.Context, id string) error {
	return c.change(ctx, func() {
		c.cache.UpdateContainer(id, func(st *state.ContainerStatus) {
			st.Running, st.StartedAt, st.PID = true, time.Unix(3, 3), 1234
		})
	})
}

func (c containers) Stop(ctx context.Context, id string, _ time.Duration) error {
	return c.change(ctx, func() {
		c.cache.UpdateContainer(id, func(st *state.ContainerStatus) {
			st.Running, st.FinishedAt, st.ExitCode, st.PID = false, time.Unix(4, 4), 143, 0
		})
	})
}

func (c containers) Remove(ctx context.Context, id string) error {
	return c.change(ctx, func() { c.cache.RemoveContainer(id) })
}

func (c containers) Update(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error {
	return c.change(ctx, func() {
		c.cache.UpdateContainer(request.GetContainerId(), func(st *state.ContainerStatus) {
			st.Resources = &runtimeapi.ContainerResources{Linux: request.GetLinux()}
		})
	})
}

func (c containers) ExecSync(
	ctx context.Context, id string, request container.ExecRequest,
) (*container.ExecResult, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	if _, err := c.cache.Snapshot().Container(id); err != nil {
		return nil, err
	}
	return &container.ExecResult{Stdout: []byte(request.Command[0]), ExitCode: 3}, nil
}

func (c containers) ReopenLog(ctx context.Context, id string) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	_, err := c.cache.Snapshot().Container(id)
	return err
}

func (c containers) CheckRunning(ctx context.Context, _ string) error { return c.enter(ctx) }

// fakeStats has no usage for any container or pod.
type fakeStats struct{}

func (fakeStats) Container(
	_ context.Context, _ *state.Snapshot, c *state.Container,
) *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{Id: c.ID}}
}

func (f fakeStats) Containers(
	ctx context.Context, snapshot *state.Snapshot, containers []*state.Container,
) []*runtimeapi.ContainerStats {
	var all []*runtimeapi.ContainerStats
	for _, c := range containers {
		all = append(all, f.Container(ctx, snapshot, c))
	}
	return all
}

func (fakeStats) Pod(_ context.Context, _ *state.Snapshot, pod *state.Pod) *runtimeapi.PodSandboxStats {
	return &runtimeapi.PodSandboxStats{Attributes: &runtimeapi.PodSandboxAttributes{Id: pod.ID}}
}

func (f fakeStats) Pods(
	ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod,
) []*runtimeapi.PodSandboxStats {
	var all []*runtimeapi.PodSandboxStats
	for _, pod := range pods {
		all = append(all, f.Pod(ctx, snapshot, pod))
	}
	return all
}

func (fakeStats) Metrics(_ context.Context, snapshot *state.Snapshot) []*runtimeapi.PodSandboxMetrics {
	var all []*runtimeapi.PodSandboxMetrics
	for _, pod := range snapshot.Pods() {
		all = append(all, &runtimeapi.PodSandboxMetrics{PodSandboxId: pod.ID})
	}
	return all
}

func (fakeStats) MetricDescriptors() []*runtimeapi.MetricDescriptor {
	return []*runtimeapi.MetricDescriptor{{Name: "container_last_seen"}}
}

// errAway is the error of every service while the engine is away.
var errAway = fmt.Errorf("the engine is away: %w", errdefs.ErrUnavailable)

// sessions returns URLs that name their session. No server listens at them.
type sessions struct{}

func (sessions) Exec(_ context.Context, req *runtimeapi.ExecRequest) (string, error) {
	return "exec/" + req.GetContainerId(), nil
}

func (sessions) Attach(_ context.Context, req *runtimeapi.AttachRequest) (string, error) {
	return "attach/" + req.GetContainerId(), nil
}

func (sessions) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest) (string, error) {
	return "portforward/" + req.GetPodSandboxId(), nil
}
