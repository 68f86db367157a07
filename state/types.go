package state

import (
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
)

// Pod is one sandbox as the cache knows it. A Pod in a snapshot is immutable,
// and so is everything it points to: a change makes a new Pod.
type Pod struct {
	// ID is the sandbox container's full id, or one of its form.
	ID     string
	Meta   PodMeta
	Status PodStatus
}

// PodMeta is what never changes in a pod's life.
type PodMeta struct {
	// Name is the sandbox container's name in the engine, or what it would be.
	Name string
	// Config is the pod's configuration as the client sent it. For a pod of another shim, or one whose checkpoint was
	// lost, it is rebuilt from the container's labels and holds metadata, labels and annotations only.
	Config         *runtimeapi.PodSandboxConfig
	RuntimeHandler string
	// Runtime is the engine's runtime that the handler stood for when the pod was created, empty where that is not
	// known.
	Runtime   string
	CreatedAt time.Time
	// HostNetwork says that the pod uses the node's network: it has no addresses of its own and no pinned namespace.
	HostNetwork bool
	// ImageID is the id of the sandbox image, empty where there is no sandbox container.
	ImageID string
}

// PodStatus is what changes in a pod's life.
type PodStatus struct {
	// Running says that the sandbox container runs, or that the pod's namespaces are alive without one.
	Running bool
	// NetworkReady says that the pod's network is complete (always true for host network while the sandbox runs).
	NetworkReady bool
	// Stopping says that StopPodSandbox has begun: the pod is never READY again.
	Stopping bool
	// PID is the sandbox process in the host's PID namespace, 0 when there is none.
	PID int
	// NetnsPath is the pinned network namespace, empty for host network.
	NetnsPath string
	// Namespaces are the others of a pod without a sandbox container, nil for a pod that has one.
	Namespaces *checkpoint.Namespaces
	// UserNamespace is the pin of the pod's user namespace, empty where it has the node's.
	UserNamespace string
	// IPs are the pod's addresses, the primary one first.
	IPs []string
	// Overhead and Resources are what limits the pod, of its configuration or of the last update; nil for nothing said.
	Overhead, Resources *runtimeapi.LinuxContainerResources
	StartedAt           time.Time
	finishedAt          time.Time
	// lost says that the pod has no record that can be read, and the engine does not have it: it stays until it is
	// removed.
	lost bool
}

// end makes the pod one that does not run.
func (s *PodStatus) end() {
	s.Running, s.PID = false, 0
	if s.finishedAt.Before(s.StartedAt) || s.finishedAt.IsZero() {
		s.finishedAt = time.Now()
	}
}

// revive makes a pod run that was taken for dead. One that is being stopped stays as it is.
func (s *PodStatus) revive() {
	if !s.Running && !s.Stopping {
		s.Running, s.finishedAt = true, time.Time{}
	}
}

// State is READY only while the sandbox runs with a complete network and nobody has asked to stop it.
func (s PodStatus) State() runtimeapi.PodSandboxState {
	if s.Running && s.NetworkReady && !s.Stopping {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// Container is one container as the cache knows it, immutable in a snapshot.
type Container struct {
	// ID is the container's full id.
	ID string
	// SandboxID is the full id of its pod's sandbox.
	SandboxID string
	Meta      ContainerMeta
	Status    ContainerStatus
}

// ContainerMeta is what never changes in a container's life.
type ContainerMeta struct {
	// Name is the container's name in the engine.
	Name string
	// Config is the container's configuration as the client sent it; rebuilt from labels as PodMeta.Config is.
	Config *runtimeapi.ContainerConfig
	// ImageID is the image's id, equal to Image.id of ListImages.
	ImageID string
	// ImageRef is the image's name by digest at the container's making, ImageID where it had none or that is not known.
	ImageRef  string
	CreatedAt time.Time
	// LogPath is the absolute path of the CRI log, empty for none.
	LogPath string
	// LogDriver is the engine's log driver, "local" or "json-file" for example.
	LogDriver string
	// EngineLogPath is the engine's own log file, empty when its driver keeps none.
	EngineLogPath string
	// User is the "user[:group]" that the engine runs the process as, with the image's default applied.
	User string
	// StopSignal is the signal that asks the container to end, with the image's default applied, "SIGTERM".
	StopSignal string
	// OOMScore is the oom_score_adj that the engine starts the process with.
	OOMScore int
	// UpperDir is the directory of the container's writable layer; empty when the engine does not tell it, as with the
	// containerd image store, or the storage driver keeps no such directory.
	UpperDir string
}

// ContainerStatus is what changes in a container's life. The state is derived from the facts.
type ContainerStatus struct {
	// Running says that the container's process runs (or is paused).
	Running bool
	// PID is its process in the host's PID namespace, 0 when it does not run.
	PID int
	// StartedAt and FinishedAt are zero until they happened.
	StartedAt  time.Time
	FinishedAt time.Time
	// ExitCode, OOMKilled and Error describe the last exit; Error is the engine's text of a failed start.
	ExitCode  int
	OOMKilled bool
	Error     string
	// oomReported says that the engine reported an out-of-memory kill in the present or last run. Docker 20.10 can
	// report it after the exit, and then its OOMKilled stays false.
	oomReported bool
	// Resources are the limits now in force.
	Resources *runtimeapi.ContainerResources
	// Identity is who the first process of the present or last run began as, nil when that cannot be learned.
	Identity *docker.Identity
	// Unknown says that the engine could not tell the container's state.
	Unknown bool
}

// State derives the CRI state:
//
//	CREATED --start--> RUNNING --exit--> EXITED
//	   \--------failed start-----------> EXITED
func (s ContainerStatus) State() runtimeapi.ContainerState {
	switch {
	case s.Unknown:
		return runtimeapi.ContainerState_CONTAINER_UNKNOWN
	case s.Running:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	case !s.FinishedAt.IsZero():
		return runtimeapi.ContainerState_CONTAINER_EXITED
	default:
		return runtimeapi.ContainerState_CONTAINER_CREATED
	}
}
