package sandbox

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/keylock"
	"github.com/criadapter/criadapter/state"
)

// Network joins pods to the network and takes them off it; *cni.Network is one.
// An Add that leaves something behind fails with a *cni.NotUndoneError.
type Network interface {
	Add(ctx context.Context, pod cni.Pod) (*cni.Result, error)
	Del(ctx context.Context, pod cni.Pod, network string) error
}

// Images provides the image that sandboxes are made of.
type Images interface {
	// EnsureSandboxImage returns the reference of the sandbox image, which is
	// in the engine as far as is known; the call is cheap.
	EnsureSandboxImage(ctx context.Context) (string, error)
	// ReloadSandboxImage does the same after the engine said that the image is
	// not there.
	ReloadSandboxImage(ctx context.Context) (string, error)
}

// Containers ends the containers of a pod. Unknown ids succeed.
type Containers interface {
	Stop(ctx context.Context, id string, grace time.Duration) error
	Remove(ctx context.Context, id string) error
}

// Options are what a Service needs.
type Options struct {
	Engine docker.Engine
	Mirror *state.Mirror
	Store  *checkpoint.Store
	// Network is nil when the engine itself connects pods to its default
	// bridge (--network-plugin=bridge).
	Network    Network
	Images     Images
	Containers Containers
	Files      *Files
	// RootDirectory, when not empty, marks the pods as those of the criadapter
	// with this root directory; it is that of state.Options.
	RootDirectory string
	// Cgroups, when not nil, lets pods be joined to the network before their
	// start is over.
	Cgroups Cgroups
	// NetnsFolder is where network namespaces are pinned, /run/netns when
	// empty.
	NetnsFolder string
	// SetUpTimeout bounds the set-up of one pod, 4 minutes when zero: as long
	// as a kubelet waits for it.
	SetUpTimeout time.Duration
}

// UndoTimeout bounds the roll-back of one failed set-up.
const UndoTimeout = 30 * time.Second

// stopGrace is what the sandbox program gets to end; it needs a few
// milliseconds. A custom sandbox image may need more.
const stopGrace = 10 * time.Second

// Service runs the pods of a node. All methods are safe for concurrent use;
// calls for different pods never wait for each other.
type Service struct {
	opts    Options
	locks   keylock.Locks
	flights flights

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup // set-ups under way
}

// New makes the service. Close ends it.
func New(opts Options) *Service {
	if opts.SetUpTimeout == 0 {
		opts.SetUpTimeout = 4 * time.Minute
	}
	ctx, cancel := context.WithCancel(context.Background()) // set-ups outlive their callers, not the service
	s := &Service{opts: opts, ctx: ctx, cancel: cancel}
	s.flights.gone = func(id string) bool {
		_, err := opts.Mirror.Snapshot().Pod(id)
		return errdefs.IsNotFound(err)
	}
	return s
}

// Close cancels the set-ups under way, waits until they are rolled back, and
// returns.
func (s *Service) Close() {
	s.cancel()
	s.group.Wait()
}
