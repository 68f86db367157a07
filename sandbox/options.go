package sandbox

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// Network joins pods to the network and takes them off it. *cni.Network implements it. An Add that fails and cannot
// undo its work returns a *cni.NotUndoneError.
type Network interface {
	Add(ctx context.Context, pod cni.Pod) (*cni.Result, error)
	Del(ctx context.Context, pod cni.Pod, network string) error
	// Joined reports whether a pod with this id is attached: an Add has begun, and no Del has succeeded since.
	Joined(id string) (bool, error)
	// Attached returns the path of the network namespace of each attached pod, by pod id.
	Attached() (map[string]string, error)
	// GC has the plugins release attachments of pods that are neither in pods nor attached (CNI GC).
	GC(ctx context.Context, pods []string) error
}

// Images provides the image of sandbox containers.
type Images interface {
	// EnsureSandboxImage returns the reference of the sandbox image, and loads or pulls the image at the first call.
	// Later calls do not ask the engine, so the image may be missing there.
	EnsureSandboxImage(ctx context.Context) (string, error)
	// ReloadSandboxImage loads the image again after the engine reported it missing, and returns its reference.
	ReloadSandboxImage(ctx context.Context) (string, error)
}

// Containers stops, removes, checkpoints and restores the containers of a pod. Stop and Remove of unknown ids succeed.
type Containers interface {
	Stop(ctx context.Context, id string, grace time.Duration) error
	Remove(ctx context.Context, id string) error
	// RemoveUnfinished removes containers of failed creates that the cache may lack. No create in the pod may succeed
	// any more.
	RemoveUnfinished(ctx context.Context, sandboxID string) error
	// LeavePod has Remove keep the records of the pod's containers until done is called.
	LeavePod(pod *state.Pod) (done func(removed bool))
	// CheckpointAll writes running containers of a pod into directories of their names below dir, all at one moment.
	CheckpointAll(ctx context.Context, sandboxID string, ids []string, dir string) error
	// Restore makes a container whose start continues at the checkpoint in dir.
	Restore(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig,
		podConfig *runtimeapi.PodSandboxConfig, dir string) (id string, err error)
}

// Cgroups finds the cgroups of containers and pods. *stats.Collector implements it.
type Cgroups interface {
	// ProcsFile returns the file that lists the processes of a container that is about to start. It is empty if the
	// file is unknown.
	ProcsFile(driver, parent, id string) string
	// ParentDirs returns the directories of a container's parent cgroup: by controller for cgroup v1, under "" for v2.
	// It returns none if they cannot be seen.
	ParentDirs(driver, parent string) map[string]string
}

// Options are the options of a Service.
type Options struct {
	Engine docker.Engine
	Cache  *state.Cache
	Store  *checkpoint.Store
	// Network joins pods to the network. With EngineBridge it only takes off pods that an earlier start of criadapter
	// joined.
	Network Network
	// EngineBridge leaves new pods to the engine's default bridge (--network-plugin=bridge).
	EngineBridge bool
	// NetworkGC says that only this criadapter uses the CNI network. CollectOrphans then runs CNI GC, which releases
	// the attachments of unknown pods.
	NetworkGC  bool
	Images     Images
	Containers Containers
	Files      *Files
	// RootDirectory, when not empty, marks the pods as owned by the criadapter with this root directory. It equals
	// state.Options.RootDirectory.
	RootDirectory string
	// Cgroups, when not nil, lets a pod join the network while the engine starts its sandbox container. It also lets
	// criadapter make, limit and remove the cgroups of pods.
	Cgroups Cgroups
	// Forget, when not nil, removes the files that another shim has kept for a pod that is being removed. It is cheap,
	// and succeeds without such files.
	Forget func(id string) error
	// Plugins notifies the NRI plugins, nil for none.
	Plugins Plugins
	// WithoutContainers leaves out the sandbox container of each new pod that needs none.
	WithoutContainers bool
	// NetnsDir is where network namespaces are pinned, /run/netns when empty.
	NetnsDir string
	// podsDir is where pods without a sandbox container have their namespaces, defaultPodsDir when empty. It must not
	// survive a reboot.
	podsDir string
	// setUpTimeout bounds the set-up of one pod, 4 minutes when zero: as long as a kubelet waits for it.
	setUpTimeout time.Duration
}
