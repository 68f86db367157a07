package state

import (
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
)

// Pod is one pod sandbox. A Pod in a snapshot is immutable, and so is everything it points to: a change makes a new
// Pod.
type Pod struct {
	// ID is the sandbox container's full id, or an id of the same form for a pod without a sandbox container.
	ID     string
	Meta   PodMeta
	Status PodStatus
}

// PodMeta is the part of a pod that never changes.
type PodMeta struct {
	// Name is the name of the sandbox container in the engine. A pod without a sandbox container has the name that the
	// container would have.
	Name string
	// Config is the pod's configuration as the client sent it. For a pod of another shim or without a checkpoint, it is
	// rebuilt from the container's labels and has metadata, labels and annotations only.
	Config         *runtimeapi.PodSandboxConfig
	RuntimeHandler string
	// Runtime is the engine's runtime for the handler when the pod was created, empty if unknown.
	Runtime   string
	CreatedAt time.Time
	// HostNetwork says that the pod uses the node's network. Then it has neither addresses of its own nor a pinned
	// namespace.
	HostNetwork bool
	// ImageID is the id of the sandbox image, empty without a sandbox container.
	ImageID string
}

// PodStatus is the part of a pod that changes.
type PodStatus struct {
	// Running says that the sandbox container runs, or that the pod's namespaces are alive without one.
	Running bool
	// NetworkReady says that the pod's network is complete. It is true for the host network while the sandbox runs.
	NetworkReady bool
	// Stopping says that StopPodSandbox has begun. The pod is never READY again.
	Stopping bool
	// PID is the sandbox process in the host's PID namespace, 0 if there is none.
	PID int
	// NetnsPath is the pinned network namespace, empty for the host network.
	NetnsPath string
	// Namespaces are the other namespaces of a pod without a sandbox container, nil for a pod with one.
	Namespaces *checkpoint.Namespaces
	// UserNamespace is the pin of the pod's user namespace, empty if the pod uses the node's.
	UserNamespace string
	// IPs are the pod's addresses, the primary one first.
	IPs []string
	// Overhead and Resources are the pod's limits, from its configuration or the last update. Each may be nil.
	Overhead, Resources *runtimeapi.LinuxContainerResources
	StartedAt           time.Time
	finishedAt          time.Time
	// lost says that the pod has neither a readable record nor a sandbox container. The pod stays until RemovePod.
	lost bool
}

// end marks the pod as not running.
func (s *PodStatus) end() {
	s.Running, s.PID = false, 0
	if s.finishedAt.Before(s.StartedAt) || s.finishedAt.IsZero() {
		s.finishedAt = time.Now()
	}
}

// revive marks a pod as running again after it was wrongly marked as ended. It does nothing if the pod is stopping.
func (s *PodStatus) revive() {
	if !s.Running && !s.Stopping {
		s.Running, s.finishedAt = true, time.Time{}
	}
}

// State is READY only while the sandbox runs with a complete network and StopPodSandbox has not begun.
func (s PodStatus) State() runtimeapi.PodSandboxState {
	if s.Running && s.NetworkReady && !s.Stopping {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// Container is one container. It is immutable in a snapshot.
type Container struct {
	// ID is the container's full id.
	ID string
	// SandboxID is the full id of its pod's sandbox.
	SandboxID string
	Meta      ContainerMeta
	Status    ContainerStatus
}

// ContainerMeta is the part of a container that never changes.
type ContainerMeta struct {
	// Name is the container's name in the engine.
	Name string
	// Config is the container's configuration as the client sent it, or rebuilt from labels like PodMeta.Config.
	Config *runtimeapi.ContainerConfig
	// ImageID is the image's id, equal to Image.id of ListImages.
	ImageID string
	// ImageRef is the image's reference by digest at the container's creation. It is ImageID if the image had no
	// reference by digest, or the reference is unknown.
	ImageRef  string
	CreatedAt time.Time
	// LogPath is the absolute path of the CRI log, empty without one.
	LogPath string
	// LogDriver is the engine's log driver, "local" or "json-file" for example.
	LogDriver string
	// EngineLogPath is the engine's own log file, empty if its driver has none.
	EngineLogPath string
	// User is the process's "user[:group]", with the image's default applied.
	User string
	// StopSignal is the signal that asks the container to end, with the image's default or "SIGTERM" applied.
	StopSignal string
	// CgroupParent is the engine's setting of that name. It is empty if the engine chooses the parent.
	CgroupParent string
	// OOMScore is the oom_score_adj of the process at its start.
	OOMScore int
	// UpperDir is the directory of the container's writable layer. It is empty if the engine does not report it, as
	// with the containerd image store, or the storage driver has no such directory.
	UpperDir string
	// hidesExitCode says that a label hides the exit code in the engine's events.
	hidesExitCode bool
}

// ContainerStatus is the part of a container that changes.
type ContainerStatus struct {
	// Running says that the container's process runs, is paused, or waits for a restart by the engine.
	Running bool
	// Paused says that the container's process is paused.
	Paused bool
	// Restarts says that the engine starts the container again after its end, unless the engine itself stopped it. Only
	// another client gives a container such a restart policy.
	Restarts bool
	// PID is the container's process in the host's PID namespace, 0 if the container does not run.
	PID        int
	StartedAt  time.Time
	FinishedAt time.Time
	// ExitCode, OOMKilled and Error describe the last exit. Error is the engine's message about a failed start.
	ExitCode  int
	OOMKilled bool
	Error     string
	// oomReported says that the engine sent an out-of-memory event in the present or last run, or that WithOOM was
	// called for it. Docker 20.10 can send the event after the exit, and its inspect then never says OOMKilled.
	oomReported bool
	// Resources are the present limits.
	Resources *runtimeapi.ContainerResources
	// Identity is the user and groups with which the first process of the present or last run began, nil if unknown.
	Identity *docker.Identity
	// Unknown says that the engine does not report the container's state.
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
