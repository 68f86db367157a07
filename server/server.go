package server

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/container"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/state"
)

// maxMessageSize is the largest gRPC message in either direction, in bytes, as in the clients of the kubelet and
// crictl.
const maxMessageSize = 16 << 20

// defaultRequestTimeout bounds a request without a client's deadline if Options has no other time. It is the default of
// --runtime-request-timeout.
const defaultRequestTimeout = 2 * time.Minute

// Cache is the part of *state.Cache that the server uses.
type Cache interface {
	// Snapshot returns the current pods and containers.
	Snapshot() *state.Snapshot
	// Err is nil while the engine answers and the snapshot is fresh.
	Err() error
	// WaitSynced waits until the snapshot has all pods and containers of the engine.
	WaitSynced(ctx context.Context) error
	// Subscribe returns a subscription to all changes from now on.
	Subscribe() *state.Subscription
}

// Engine is the part of docker.Engine that the server uses.
type Engine interface {
	Features(ctx context.Context) (docker.Features, error)
}

// Sandboxes manages pods, as *sandbox.Service does. Stop and Remove of an unknown id succeed.
type Sandboxes interface {
	// Run returns the sandbox's id. If the set-up fails after the sandbox got its id, Run returns the id with the
	// error.
	Run(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (id string, err error)
	Stop(ctx context.Context, id string) error
	Remove(ctx context.Context, id string) error
	// UpdateResources changes the limits of a pod. A nil argument changes nothing.
	UpdateResources(ctx context.Context, id string, overhead, resources *runtimeapi.LinuxContainerResources) error
	// Checkpoint writes running containers of a pod into an empty directory.
	Checkpoint(ctx context.Context, id, dir string, containerIDs []string) error
	// Restore makes a pod from a checkpoint. It returns the pod's id, and its containers' ids by name.
	Restore(ctx context.Context, dir string, config *runtimeapi.PodSandboxConfig, runtimeHandler string,
		configs []*runtimeapi.ContainerConfig) (id string, containers map[string]string, err error)
}

// Containers manages containers, as *container.Service does. Stop and Remove of an unknown id succeed.
type Containers interface {
	Create(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig,
		podConfig *runtimeapi.PodSandboxConfig) (id string, err error)
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string, grace time.Duration) error
	Remove(ctx context.Context, id string) error
	Update(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error
	ExecSync(ctx context.Context, id string, request container.ExecRequest) (*container.ExecResult, error)
	ReopenLog(ctx context.Context, id string) error
	// Checkpoint writes a running container into an archive.
	Checkpoint(ctx context.Context, id, location string) error
	// CheckRunning asks the engine whether a container runs. It fails with errdefs.ErrFailedPrecondition if not.
	CheckRunning(ctx context.Context, id string) error
}

// Images manages images, as *image.Service does.
type Images interface {
	Pull(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (imageRef string, err error)
	List(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	Status(ctx context.Context, spec *runtimeapi.ImageSpec,
		opts image.StatusOptions) (*runtimeapi.ImageStatusResponse, error)
	Remove(ctx context.Context, spec *runtimeapi.ImageSpec) error
	FsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Streams returns URLs of streaming sessions, as *streaming.Server does. Ids must be full ids. A session logs with
// ctx's logger. Invalid combinations of streams fail with ErrInvalidArgument.
type Streams interface {
	Exec(ctx context.Context, req *runtimeapi.ExecRequest) (url string, err error)
	Attach(ctx context.Context, req *runtimeapi.AttachRequest) (url string, err error)
	PortForward(ctx context.Context, req *runtimeapi.PortForwardRequest) (url string, err error)
}

// Stats returns the resource usage of pods and containers, as *stats.Collector does. Its calls never fail. They leave
// out values that they cannot read.
type Stats interface {
	Container(ctx context.Context, snapshot *state.Snapshot, container *state.Container) *runtimeapi.ContainerStats
	Containers(ctx context.Context, snapshot *state.Snapshot,
		containers []*state.Container) []*runtimeapi.ContainerStats
	Pod(ctx context.Context, snapshot *state.Snapshot, pod *state.Pod) *runtimeapi.PodSandboxStats
	Pods(ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod) []*runtimeapi.PodSandboxStats
	Metrics(ctx context.Context, snapshot *state.Snapshot) []*runtimeapi.PodSandboxMetrics
	MetricDescriptors() []*runtimeapi.MetricDescriptor
}

// Network is the pods' network. *cni.Network implements it.
type Network interface {
	// Status returns nil if pods can join the network, else the reason.
	Status(ctx context.Context) error
	// Config returns the configuration in use.
	Config() cni.Config
}

// ReportKey is the key of Options.Report in a verbose Status. No other CRI server has this key.
const ReportKey = "criadapter"

// Options are the options of a Server. All services except Network are required.
type Options struct {
	Cache      Cache
	Engine     Engine
	Sandboxes  Sandboxes
	Containers Containers
	Images     Images
	Stats      Stats
	Streams    Streams
	// Network is nil if the engine connects pods to its default bridge (--network-plugin=bridge).
	Network Network
	// Recovered is closed when pods are repaired, and the logs of containers that ended before this start are complete.
	// Requests for pods and containers wait for Recovered, as they wait for the cache. It may be nil.
	Recovered <-chan struct{}
	// Observe is called after every request. It gets the method without the service's name, the code, and the time from
	// arrival to the end of the answer. It may be nil.
	Observe func(method string, code codes.Code, took time.Duration)
	// RequestTimeout bounds unary requests without a client's deadline, 0 for defaultRequestTimeout. Slow kinds of
	// requests get more, see bound.
	RequestTimeout time.Duration
	// Config returns the settings in force, as JSON in a verbose Status. They must have no secrets. It may be nil.
	Config func() any
	// Report returns the state of the program, as JSON in a verbose Status under ReportKey. It may be nil.
	Report func(ctx context.Context) any
	// Warnings returns warnings for an operator in a verbose Status, one sentence each, such as checkpoints in
	// quarantine. It may be nil.
	Warnings func(ctx context.Context) []string
}

// Server answers the RPCs of RuntimeService and ImageService. All methods are safe for concurrent use.
type Server struct {
	// The Unsafe types make the compiler require every RPC.
	runtimeapi.UnsafeRuntimeServiceServer
	runtimeapi.UnsafeImageServiceServer

	opts Options
	// firstSync and longestSync are the constants with these names, but shorter in tests.
	firstSync, longestSync time.Duration
	// allSandboxes and allContainers cache the last lists without a filter.
	allSandboxes, allContainers listCache
	// ending is closed by EndStreams.
	ending chan struct{}
	// synced is true once the cache has been complete.
	synced atomic.Bool
	// requests is the number of the last request, for the log.
	requests atomic.Uint64
	// features are the engine's last reported features, nil before the first report.
	features atomic.Pointer[docker.Features]
	// podCIDR is the value of the last UpdateRuntimeConfig.
	podCIDR atomic.Pointer[string]
}

// New returns a server, which Register connects to gRPC.
func New(opts Options) *Server {
	if opts.RequestTimeout == 0 {
		opts.RequestTimeout = defaultRequestTimeout
	}
	if opts.Observe == nil {
		opts.Observe = func(string, codes.Code, time.Duration) {}
	}
	return &Server{opts: opts, firstSync: firstSync, longestSync: longestSync, ending: make(chan struct{})}
}

// Register registers both CRI services with a gRPC server, which must have GRPCOptions.
func (s *Server) Register(server *grpc.Server) {
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
}

// streamWorkers is the number of goroutines that wait for requests. Without them, each request would get a new
// goroutine, whose stack has to grow first. The growth takes 7 % of a status request. If all workers are busy, gRPC
// starts more goroutines.
const streamWorkers = 4

// GRPCOptions returns the options of the gRPC server: both interceptors, the codec and the message sizes that CRI
// clients expect.
func (s *Server) GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.unaryInterceptor),
		grpc.ChainStreamInterceptor(s.streamInterceptor),
		grpc.ForceServerCodecV2(newCodec(&s.allSandboxes, &s.allContainers)),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxRecvMsgSize(maxMessageSize),
		grpc.MaxSendMsgSize(maxMessageSize),
	}
}
