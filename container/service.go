package container

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/keylock"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/state"
)

// Images finds the images that containers are made of.
type Images interface {
	// Resolve returns the id of the image with this id, tag or digest. It fails with errdefs.ErrNotFound when the image
	// is not on this node. It fails with ErrInvalidArgument for an impossible name, and the text begins with the field
	// image.image.
	Resolve(ctx context.Context, ref string) (id string, err error)
	// Digested returns the name by digest of the image with this id, "" when it has none. It prefers the repository of
	// name.
	Digested(ctx context.Context, id, name string) (string, error)
	// IsArtifact reports whether the image with this id is an OCI artifact, which cannot become a container.
	IsArtifact(ctx context.Context, id string) (bool, error)
	// Allow returns an error if the node's policy refuses containers of the image with this id, for which the client
	// asked by name.
	Allow(ctx context.Context, id, name string) error
}

// ImageVolumes makes the files of images mountable.
type ImageVolumes interface {
	// Mount returns the host path of an image's files, or of a part of them. The caller must call release once the
	// engine has the container that mounts the files, or will not have it. Mount fails with errdefs.ErrNotFound if the
	// image lacks the part.
	Mount(ctx context.Context, imageID, subPath string) (path string, release func(), err error)
	// Tidy removes mounts of images that no container uses. The Service calls it when a container is gone.
	Tidy()
}

// Sandboxes are pods whose containers run in one sandbox of the runtime. Their processes are not on the node.
type Sandboxes interface {
	// Signal signals a command in a sandbox. pid is a process on the node that only waits for the command. It returns
	// false for a container that is in no such sandbox.
	Signal(ctx context.Context, pod *state.Pod, container string, pid int, signal unix.Signal) (bool, error)
}

// Options are what a Service needs. All fields but ImageVolumes, Cgroups, Commands, Sandboxes, RootDirectory, LinkLogs,
// LogBufferSize, RuntimeAnnotations and Plugins are required.
type Options struct {
	Engine docker.Engine
	Cache  *state.Cache
	Store  *checkpoint.Store
	Images Images
	Logs   *logs.Service
	// ImageVolumes serves mounts of images that the engine cannot mount by itself; without it they are refused.
	ImageVolumes ImageVolumes
	// Files returns the pod's own resolv.conf, hosts and hostname, which are mounted into each of its containers.
	Files func(sandboxID string) translate.HostFiles
	// Cgroups serves limits without a field in the Docker API (huge pages and unified keys) and counts out-of-memory
	// kills. With nil, these limits do not apply, and only the engine reports such kills.
	Cgroups Cgroups
	// Commands runs commands without the engine where that is possible; with nil all go through the engine.
	Commands *ociexec.Runner
	// Sandboxes signals commands in sandboxes of their runtime; nil if there are none.
	Sandboxes Sandboxes
	// RootDirectory, when not empty, marks the containers as owned by the criadapter with this root directory. It
	// equals state.Options.RootDirectory.
	RootDirectory string
	// LinkLogs makes the CRI log of each new container a link to the engine's own file.
	LinkLogs bool
	// LogBufferSize is the largest size of the engine's log of a new container whose log is copied, in bytes. Zero
	// means the default of translate.ContainerInput.
	LogBufferSize int64
	// RuntimeAnnotations goes to translate.ContainerInput.
	RuntimeAnnotations []string
	// Plugins follow and adjust containers; nil for none.
	Plugins Plugins
}

const (
	// settleTimeout bounds the work after a call whose caller may be gone: roll-backs, and a look at the container's
	// state.
	settleTimeout = 30 * time.Second
	// exitDrainTimeout bounds how long an exit is held back for the container's log.
	exitDrainTimeout = 2 * time.Second
	// removeDrainTimeout bounds the wait for the log before the engine deletes its log file.
	removeDrainTimeout = 10 * time.Second
)

// Service runs the containers of a node. All methods are safe for concurrent use; calls for different containers never
// wait for each other. Container ids may be unambiguous prefixes.
type Service struct {
	opts      Options
	locks     keylock.Locks
	hostPaths *hostPaths
	runs      runs
	oomKills  oomKills
	unresumed unresumed
	// unfinished has the sandbox's id, by the container's name, until Create succeeds. The engine may have lost the
	// answer to the create and the event of the container, so the cache may lack the container.
	unfinished sync.Map
	// ends has the *checkpoint.End of each container whose exit hook runs, by id. One write then saves the end and the
	// last position of the log.
	ends sync.Map
	// leaving has the ids of pods that are being removed, see LeavePod.
	leaving sync.Map
	// later is the queue of work for Watch, see leaveToWatch.
	later chan func(context.Context)
	// workDirs has the path of each directory that a running Checkpoint works in.
	workDirs sync.Map

	output budget
	way    commandWay
	// proc is /proc, where files of running containers are read; tests have another.
	proc string
	// pidfdOpen is pidfd_open(2). Tests replace it by the answer of a kernel without this call.
	pidfdOpen func(pid, flags int) (int, error)
}

// New makes the service. Set the cache's hooks to FinishExit and SaveOOM before the cache runs, and call Recover once
// after its first relist, and then Watch.
func New(opts Options) *Service {
	if opts.Plugins == nil {
		opts.Plugins = withoutPlugins{}
	}
	return &Service{opts: opts, hostPaths: newHostPaths(), output: budget{left: outputBudget}, proc: "/proc",
		later:     make(chan func(context.Context), 100),
		pidfdOpen: unix.PidfdOpen}
}

// lock takes the container's lock and looks the container up under it.
func (s *Service) lock(ctx context.Context, idOrPrefix string) (*state.Container, func(), error) {
	c, err := s.find(idOrPrefix)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := s.locks.Lock(ctx, c.ID)
	if err != nil {
		return nil, nil, err
	}
	if c, err = s.find(c.ID); err != nil {
		unlock()
		return nil, nil, err
	}
	return c, unlock, nil
}

// find looks a container up in the cache. While the cache does not follow the engine, an unknown container may exist:
// then it fails with ErrUnavailable.
func (s *Service) find(idOrPrefix string) (*state.Container, error) {
	c, err := s.opts.Cache.Snapshot().Container(idOrPrefix)
	if errdefs.IsNotFound(err) {
		if stale := s.opts.Cache.Err(); stale != nil {
			return nil, stale
		}
	}
	return c, err
}

// readyPod returns the pod that a container is to run in.
func (s *Service) readyPod(sandboxID string) (*state.Pod, error) {
	pod, err := s.opts.Cache.Snapshot().Pod(sandboxID)
	if err != nil {
		return nil, err
	}
	if pod.Status.State() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil, fmt.Errorf("pod sandbox %s is not ready, run a new one: %w", pod.ID, errdefs.ErrFailedPrecondition)
	}
	return pod, nil
}

// wrongState is the error of a call that the container's state does not allow.
func wrongState(c *state.Container, need string) error {
	return fmt.Errorf("container %s is %s, it must be %s: %w", c.ID, stateName(c), need, errdefs.ErrFailedPrecondition)
}

func stateName(c *state.Container) string {
	switch c.Status.State() {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return "created"
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return "running"
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return "exited"
	default:
		return "in an unknown state"
	}
}

// settling returns a context for work that must be finished even if the caller is gone.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
}
