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
	"github.com/criadapter/criadapter/state"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard) // a line per request; TestLog… reads them
	os.Exit(m.Run())
}

// node is a node whose rooms live in memory: what its sandboxes and containers
// do is seen in its mirror, as with the real ones.
type node struct {
	*Server
	mirror  *mirror
	engine  *engine
	network *network
	images  *images
	rooms   *rooms
}

func newNode() *node {
	m := &mirror{Mirror: state.New(state.Options{})}
	n := &node{
		mirror: m,
		engine: &engine{features: docker.Features{
			ServerVersion:    "20.10.24",
			APIVersion:       "1.41",
			CgroupDriver:     "systemd",
			Runtimes:         []string{"io.containerd.runc.v2", "runc"},
			DefaultRuntime:   "runc",
			NegativeOOMScore: true,
		}},
		network: &network{},
		images:  &images{present: map[string]bool{}},
		rooms:   &rooms{mirror: m},
	}
	n.Server = New(Options{
		Mirror:     m,
		Engine:     n.engine,
		Sandboxes:  sandboxes{n.rooms},
		Containers: containers{n.rooms},
		Images:     n.images,
		Stats:      figures{},
		Streams:    sessions{},
		Network:    n.network,
	})
	return n
}

// dial serves the node and returns a connection to it.
func (n *node) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(n.GRPCOptions()...)
	n.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///node",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return conn
}

// mirror is a mirror that follows no engine, and is complete unless it is told
// otherwise.
type mirror struct {
	*state.Mirror
	err      error
	unsynced bool
	// synced ends that.
	synced chan struct{}
}

func (m *mirror) Err() error { return m.err }

func (m *mirror) WaitSynced(ctx context.Context) error {
	if !m.unsynced {
		return nil
	}
	select {
	case <-m.synced:
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

// images holds images by name; an image's id is its name.
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

func (i *images) Status(_ context.Context, spec *runtimeapi.ImageSpec, _ image.StatusOptions) (*runtimeapi.ImageStatusResponse, error) {
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

// rooms makes and ends pods and containers in the mirror.
type rooms struct {
	mirror *mirror
	mu     sync.Mutex
	made   int
	// before, when set, is called in each call that changes something.
	before func(ctx context.Context) error
}

func (r *rooms) enter(ctx context.Context) error {
	if r.before == nil {
		return nil
	}
	return r.before(ctx)
}

func (r *rooms) nextID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	return fmt.Sprintf("%064x", r.made)
}

type sandboxes struct{ *rooms }

func (s sandboxes) Run(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	pod := state.Pod{
		ID:     s.nextID(),
		Meta:   state.PodMeta{Config: config, RuntimeHandler: handler, CreatedAt: time.Unix(1, 1)},
		Status: state.PodStatus{Running: true, NetworkReady: true, PID: 4321, IPs: []string{"10.0.0.2"}},
	}
	s.mirror.PutPod(pod)
	return pod.ID, nil
}

func (s sandboxes) Stop(ctx context.Context, id string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mirror.UpdatePod(id, func(st *state.PodStatus) { st.Running, st.Stopping = false, true })
	return nil
}

func (s sandboxes) Remove(ctx context.Context, id string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mirror.RemovePod(id)
	return nil
}

type containers struct{ *rooms }

func (c containers) Create(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	if err := c.enter(ctx); err != nil {
		return "", err
	}
	made := state.Container{
		ID:        c.nextID(),
		SandboxID: sandboxID,
		Meta:      state.ContainerMeta{Config: config, ImageID: "sha256:1", CreatedAt: time.Unix(2, 2), StopSignal: "SIGTERM"},
	}
	c.mirror.PutContainer(made)
	return made.ID, nil
}

func (c containers) Start(ctx context.Context, id string) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	c.mirror.UpdateContainer(id, func(st *state.ContainerStatus) {
		st.Running, st.StartedAt, st.PID = true, time.Unix(3, 3), 1234
	})
	return nil
}

func (c containers) Stop(ctx context.Context, id string, _ time.Duration) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	c.mirror.UpdateContainer(id, func(st *state.ContainerStatus) {
		st.Running, st.FinishedAt, st.ExitCode, st.PID = false, time.Unix(4, 4), 143, 0
	})
	return nil
}

func (c containers) Remove(ctx context.Context, id string) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	c.mirror.RemoveContainer(id)
	return nil
}

func (c containers) Update(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	c.mirror.UpdateContainer(request.GetContainerId(), func(st *state.ContainerStatus) {
		st.Resources = &runtimeapi.ContainerResources{Linux: request.GetLinux()}
	})
	return nil
}

func (c containers) ExecSync(ctx context.Context, id string, request container.ExecRequest) (*container.ExecResult, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	if _, err := c.mirror.Snapshot().Container(id); err != nil {
		return nil, err
	}
	return &container.ExecResult{Stdout: []byte(request.Command[0]), ExitCode: 3}, nil
}

func (c containers) ReopenLog(ctx context.Context, id string) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	_, err := c.mirror.Snapshot().Container(id)
	return err
}

// figures are those of a node where nothing uses anything.
type figures struct{}

func (figures) Container(_ context.Context, c *state.Container) *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{Id: c.ID}}
}

func (f figures) Containers(ctx context.Context, _ *state.Snapshot, containers []*state.Container) []*runtimeapi.ContainerStats {
	var all []*runtimeapi.ContainerStats
	for _, c := range containers {
		all = append(all, f.Container(ctx, c))
	}
	return all
}

func (figures) Pod(_ context.Context, _ *state.Snapshot, pod *state.Pod) *runtimeapi.PodSandboxStats {
	return &runtimeapi.PodSandboxStats{Attributes: &runtimeapi.PodSandboxAttributes{Id: pod.ID}}
}

func (f figures) Pods(ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod) []*runtimeapi.PodSandboxStats {
	var all []*runtimeapi.PodSandboxStats
	for _, pod := range pods {
		all = append(all, f.Pod(ctx, snapshot, pod))
	}
	return all
}

func (figures) Metrics(_ context.Context, snapshot *state.Snapshot) []*runtimeapi.PodSandboxMetrics {
	var all []*runtimeapi.PodSandboxMetrics
	for _, pod := range snapshot.Pods() {
		all = append(all, &runtimeapi.PodSandboxMetrics{PodSandboxId: pod.ID})
	}
	return all
}

func (figures) MetricDescriptors() []*runtimeapi.MetricDescriptor {
	return []*runtimeapi.MetricDescriptor{{Name: "container_last_seen"}}
}

// errAway is what every room says while the engine is away.
var errAway = fmt.Errorf("the engine is away: %w", errdefs.ErrUnavailable)

// sessions gives out URLs that name what they are for, and that nobody serves.
type sessions struct{}

func (sessions) Exec(req *runtimeapi.ExecRequest) (string, error) {
	return "exec/" + req.GetContainerId(), nil
}

func (sessions) Attach(req *runtimeapi.AttachRequest) (string, error) {
	return "attach/" + req.GetContainerId(), nil
}

func (sessions) PortForward(req *runtimeapi.PortForwardRequest) (string, error) {
	return "portforward/" + req.GetPodSandboxId(), nil
}
