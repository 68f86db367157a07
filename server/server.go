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

// maxMessageSize is the largest gRPC message in either direction: what the kubelet's and crictl's client accepts.
const maxMessageSize = 16 << 20

// defaultRequestTimeout bounds a request whose client gave no deadline when
// Options names no other time, the default of --runtime-request-timeout.
const defaultRequestTimeout = 2 * time.Minute

// Cache is what the server reads of the node's state; *state.Cache is one.
type Cache interface {
	// Snapshot returns the pods and containers as they are now.
	Snapshot() *state.Snapshot
	// Err is nil while the engine answers and the snapshot is fresh.
	Err() error
	// WaitSynced waits until the snapshot holds what the engine has.
	WaitSynced(ctx context.Context) error
	// Subscribe tells of every change from now on.
	Subscribe() *state.Subscription
}

// Engine is what the server asks of the engine; docker.Engine is one.
type Engine interface {
	Features(ctx context.Context) (docker.Features, error)
}

// Sandboxes runs pods; *sandbox.Service is one. Stop and Remove of an unknown id succeed.
type Sandboxes interface {
	// Run returns the sandbox's id with an error as well, once it had one.
	Run(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (id string, err error)
	Stop(ctx context.Context, id string) error
	Remove(ctx context.Context, id string) error
	// UpdateResources changes what limits a pod; what is nil stays.
	UpdateResources(ctx context.Context, id string, overhead, resources *runtimeapi.LinuxContainerResources) error
	// Checkpoint writes running containers of a pod into an empty directory.
	Checkpoint(ctx context.Context, id, dir string, containerIDs []string) error
	// Restore makes a pod from a checkpoint and returns its id, and the ids of its containers by their names.
	Restore(ctx context.Context, dir string, config *runtimeapi.PodSandboxConfig, runtimeHandler string, configs []*runtimeapi.ContainerConfig) (id string, containers map[string]string, err error)
}

// Containers runs containers; *container.Service is one. Stop and Remove of an unknown id succeed.
type Containers interface {
	Create(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, podConfig *runtimeapi.PodSandboxConfig) (id string, err error)
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string, grace time.Duration) error
	Remove(ctx context.Context, id string) error
	Update(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error
	ExecSync(ctx context.Context, id string, request container.ExecRequest) (*container.ExecResult, error)
	ReopenLog(ctx context.Context, id string) error
	// Checkpoint writes a running container into an archive.
	Checkpoint(ctx context.Context, id, location string) error
	// CheckRunning asks the engine whether a container runs, and fails with
	// errdefs.ErrFailedPrecondition when it does not.
	CheckRunning(ctx context.Context, id string) error
}

// Images holds images; *image.Service is one.
type Images interface {
	Pull(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (imageRef string, err error)
	List(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	Status(ctx context.Context, spec *runtimeapi.ImageSpec, opts image.StatusOptions) (*runtimeapi.ImageStatusResponse, error)
	Remove(ctx context.Context, spec *runtimeapi.ImageSpec) error
	FsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Streams gives out URLs of streaming sessions, for ids in full; *streaming.Server does. The lines that a session logs
// are those of ctx's logger. A request for streams that cannot be fails with ErrInvalidArgument.
type Streams interface {
	Exec(ctx context.Context, req *runtimeapi.ExecRequest) (url string, err error)
	Attach(ctx context.Context, req *runtimeapi.AttachRequest) (url string, err error)
	PortForward(ctx context.Context, req *runtimeapi.PortForwardRequest) (url string, err error)
}

// Stats tells what pods and containers use; *stats.Collector does. None of its
// calls fails: what cannot be read is left out.
type Stats interface {
	Container(ctx context.Context, container *state.Container) *runtimeapi.ContainerStats
	Containers(ctx context.Context, snapshot *state.Snapshot, containers []*state.Container) []*runtimeapi.ContainerStats
	Pod(ctx context.Context, snapshot *state.Snapshot, pod *state.Pod) *runtimeapi.PodSandboxStats
	Pods(ctx context.Context, snapshot *state.Snapshot, pods []*state.Pod) []*runtimeapi.PodSandboxStats
	Metrics(ctx context.Context, snapshot *state.Snapshot) []*runtimeapi.PodSandboxMetrics
	MetricDescriptors() []*runtimeapi.MetricDescriptor
}

// Network tells whether pods can be joined to the network; *cni.Network is one.
type Network interface {
	// Status is nil when they can, else the reason why not.
	Status(ctx context.Context) error
	// Config describes the configuration in use.
	Config() cni.Config
}

// ReportKey is where a verbose Status has Options.Report. No other CRI server has this key.
const ReportKey = "criadapter"

// Options are what a Server needs. All services are required but Network.
type Options struct {
	Cache      Cache
	Engine     Engine
	Sandboxes  Sandboxes
	Containers Containers
	Images     Images
	Stats      Stats
	Streams    Streams
	// Network is nil when the engine itself connects pods to its default bridge (--network-plugin=bridge).
	Network Network
	// Recovered is closed when what a client may rely on is true again after a start: the logs of containers that ended
	// meanwhile are complete. Requests for pods and containers wait for it as they wait for the cache; nil for nothing to
	// wait for.
	Recovered <-chan struct{}
	// Observe, when not nil, is told of every request that is over: its method without the service's name, its code,
	// and the time from its arrival to the end of its answer.
	Observe func(method string, code codes.Code, took time.Duration)
	// RequestTimeout bounds unary requests whose client gave no deadline, 0 for defaultRequestTimeout. Requests that
	// may take long by their nature get more, see bound.
	RequestTimeout time.Duration
	// Config is the program's configuration in effect, encoded as JSON into a verbose Status. It must hold no secrets.
	Config any
	// Report returns how the program fares, encoded as JSON into a verbose Status below ReportKey. It may be nil.
	Report func(ctx context.Context) any
	// Warnings returns what an operator should know of, one sentence each, for a verbose Status: checkpoints put into
	// quarantine, for example. It may be nil.
	Warnings func(ctx context.Context) []string
}

// Server answers the RPCs of RuntimeService and ImageService. All methods are safe for concurrent use.
type Server struct {
	// The Unsafe forms make the compiler demand every RPC.
	runtimeapi.UnsafeRuntimeServiceServer
	runtimeapi.UnsafeImageServiceServer

	opts Options
	// firstSync and longestSync are the constants of these names, shorter in tests.
	firstSync, longestSync time.Duration
	// allSandboxes and allContainers cache the last lists without a filter.
	allSandboxes, allContainers listCache
	// ending is closed by EndStreams.
	ending chan struct{}
	// synced is true once the cache has been complete.
	synced atomic.Bool
	// requests numbers the requests for the log.
	requests atomic.Uint64
	// features is what the engine last said of itself, nil before the first time.
	features atomic.Pointer[docker.Features]
	// podCIDR is what UpdateRuntimeConfig last brought.
	podCIDR atomic.Pointer[string]
}

// New returns a server. It does nothing until Register.
func New(opts Options) *Server {
	if opts.RequestTimeout == 0 {
		opts.RequestTimeout = defaultRequestTimeout
	}
	if opts.Observe == nil {
		opts.Observe = func(string, codes.Code, time.Duration) {}
	}
	return &Server{opts: opts, firstSync: firstSync, longestSync: longestSync, ending: make(chan struct{})}
}

// Register makes a gRPC server answer both CRI services with s. The gRPC server must have been made with GRPCOptions.
func (s *Server) Register(server *grpc.Server) {
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
}

// streamWorkers is how many goroutines wait for requests. Each request would get a new one otherwise, whose stack has
// to grow first: 7 % of a status. There are more when all of these are busy.
const streamWorkers = 4

// GRPCOptions returns the options that a gRPC server needs: both interceptors,
// the codec and the message sizes that CRI clients count on.
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
