package sandbox

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/keylock"
	"github.com/criadapter/criadapter/state"
)

// Network joins pods to the network and takes them off it; *cni.Network is one.
// An Add that leaves something behind fails with a *cni.NotUndoneError.
type Network interface {
	Add(ctx context.Context, pod cni.Pod) (*cni.Result, error)
	Del(ctx context.Context, pod cni.Pod, network string) error
	// Joined reports whether anything is kept of a pod with this id that Add has
	// joined, or begun to join, and Del has not taken off.
	Joined(id string) (bool, error)
	// Attached returns the ids of all pods that are joined in this sense, each with the path of its network namespace.
	Attached() (map[string]string, error)
	// GC lets the network release what it holds for others than these pods and those that are joined.
	GC(ctx context.Context, pods []string) error
}

// Images provides the image that sandboxes are made of.
type Images interface {
	// EnsureSandboxImage returns the reference of the sandbox image, which is
	// in the engine as far as is known; the call is cheap.
	EnsureSandboxImage(ctx context.Context) (string, error)
	// ReloadSandboxImage does the same after the engine said that the image is not there.
	ReloadSandboxImage(ctx context.Context) (string, error)
}

// Containers ends the containers of a pod, and keeps and restores them. Stop and Remove of unknown ids succeed.
type Containers interface {
	Stop(ctx context.Context, id string, grace time.Duration) error
	Remove(ctx context.Context, id string) error
	// CheckpointAll writes running containers of a pod into directories of their names below dir, as of one moment.
	CheckpointAll(ctx context.Context, sandboxID string, ids []string, dir string) error
	// Restore makes a container that begins, when it is started, as the checkpoint in dir ended.
	Restore(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, podConfig *runtimeapi.PodSandboxConfig, dir string) (id string, err error)
}

// Options are what a Service needs.
type Options struct {
	Engine docker.Engine
	Cache  *state.Cache
	Store  *checkpoint.Store
	// Network joins pods to the network, or only takes them off when EngineBridge is set.
	Network Network
	// EngineBridge leaves new pods to the engine's default bridge (--network-plugin=bridge).
	EngineBridge bool
	// NetworkGC says that nobody else uses the CNI network: CollectOrphans has the
	// plugins collect what belongs to no pod.
	NetworkGC  bool
	Images     Images
	Containers Containers
	Files      *Files
	// RootDirectory, when not empty, marks the pods as those of the criadapter
	// with this root directory; it is that of state.Options.
	RootDirectory string
	// Cgroups, when not nil, lets pods be joined to the network before their start is over.
	Cgroups Cgroups
	// Forget, when not nil, removes what another shim has kept of a pod with this id, which is removed. Without
	// anything it is cheap and succeeds.
	Forget func(id string) error
	// WithoutContainers leaves out the sandbox container of each new pod that needs none.
	WithoutContainers bool
	// NetnsDir is where network namespaces are pinned, /run/netns when empty.
	NetnsDir string
	// podsDir is where pods without a sandbox container have their namespaces, defaultPodsDir when empty. It must not
	// outlive the machine.
	podsDir string
	// setUpTimeout bounds the set-up of one pod, 4 minutes when zero: as long as a kubelet waits for it.
	setUpTimeout time.Duration
}

// undoTimeout bounds the roll-back of one failed set-up.
const undoTimeout = 30 * time.Second

// stopGrace is what the sandbox program gets to end; it needs a few milliseconds. A custom sandbox image may need more.
const stopGrace = 10 * time.Second

// Service runs the pods of a node. All methods are safe for concurrent use;
// calls for different pods never wait for each other.
type Service struct {
	opts     Options
	locks    keylock.Locks
	inflight inflightRuns

	reach  reach
	making making

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup // set-ups under way
}

// New makes the service. Close ends it.
func New(opts Options) *Service {
	opts.podsDir = cmp.Or(opts.podsDir, defaultPodsDir)
	if opts.setUpTimeout == 0 {
		opts.setUpTimeout = 4 * time.Minute
	}
	ctx, cancel := context.WithCancel(context.Background()) // set-ups outlive their callers, not the service
	s := &Service{opts: opts, ctx: ctx, cancel: cancel}
	s.inflight.gone = func(id string) bool {
		_, err := opts.Cache.Snapshot().Pod(id)
		return errdefs.IsNotFound(err)
	}
	return s
}

// Close cancels the set-ups under way, waits until they are rolled back, and returns.
func (s *Service) Close() {
	s.cancel()
	s.group.Wait()
}
