package model

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodStatus is the runtime's view of one pod at one time. It is immutable.
type PodStatus struct {
	UID             types.UID
	Name, Namespace string
	// Sandboxes are the pod's sandboxes, newest first.
	Sandboxes []SandboxStatus
	// Containers has all existing attempts of all containers, newest first for each name.
	Containers []ContainerStatus
	// ObservedAt is a time before the first request to the runtime. The status shows all actions that ended before that
	// time.
	ObservedAt time.Time
}

// SandboxStatus is one sandbox.
type SandboxStatus struct {
	ID        string
	Attempt   uint32
	Ready     bool
	CreatedAt time.Time
	// IPs has the primary address first. It is empty on the host's network.
	IPs         []string
	HostNetwork bool
	Annotations map[string]string
}

// ContainerState is the state of one attempt.
type ContainerState string

// The states of a runtime.
const (
	StateCreated ContainerState = "created"
	StateRunning ContainerState = "running"
	StateExited  ContainerState = "exited"
	StateUnknown ContainerState = "unknown"
)

// ContainerStatus is one attempt of a container.
type ContainerStatus struct {
	ID, SandboxID, Name string
	// Attempt counts from 0. It is the number of earlier restarts.
	Attempt uint32
	State   ContainerState
	// A time is zero until its event.
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason, Message                  string
	// Image is the name in the pod, ImageID the runtime's identity of the image, ImageRef the reference of the pull.
	Image, ImageID, ImageRef string
	// Hash is AnnotationHash: the hash of the container's specification at its creation.
	Hash string
	// Resources has the requests and limits at the container's creation, nil without the annotation.
	Resources *v1.ResourceRequirements
	// Actual has the limits that the runtime reports, or nil.
	Actual *ActualLimits
	// User is the user and the groups of the first process, nil if the runtime does not report them.
	User *v1.ContainerUser
	// StopSignal is the signal that ends the container, nil if the runtime does not report it.
	StopSignal *v1.Signal
	// Mounts are the mounts by their paths in the container.
	Mounts map[string]Mount
	// LogPath is the absolute path of the log.
	LogPath     string
	Annotations map[string]string
}

// Mount is a mount as the runtime reports it.
type Mount struct {
	// RecursiveReadOnly says that mounts below this mount are read-only, too.
	RecursiveReadOnly bool
	// ImageRef is the reference of a mounted image, empty for other mounts.
	ImageRef string
}

// ActualLimits are a container's limits in CRI (LinuxContainerResources). 0 means no limit, or a limit that the runtime
// does not report.
type ActualLimits struct {
	// CPUQuota and CPUPeriod are in microseconds, Memory is in bytes. CPUShares is a weight.
	CPUShares, CPUQuota, CPUPeriod, Memory int64
}

// Running reports whether any container of the pod runs. A container in an unknown state counts, because it may run.
func (s *PodStatus) Running() bool {
	return slices.ContainsFunc(s.Containers, func(container ContainerStatus) bool {
		return container.State == StateRunning || container.State == StateUnknown
	})
}

// Alive reports whether the pod has a ready sandbox or a running container.
func (s *PodStatus) Alive() bool {
	return s.Running() || slices.ContainsFunc(s.Sandboxes, func(sandbox SandboxStatus) bool { return sandbox.Ready })
}

// ReadySandbox returns the newest sandbox if it is ready, else nil.
func (s *PodStatus) ReadySandbox() *SandboxStatus {
	if len(s.Sandboxes) > 0 && s.Sandboxes[0].Ready {
		return &s.Sandboxes[0]
	}
	return nil
}

// UsableSandbox returns the pod's sandbox, or nil and the reason why it must be replaced (PodSandboxChanged of
// pkg/kubelet/kuberuntime/util). A usable sandbox is the only ready one, and has the pod's network mode. Without the
// host's network, it has an address.
func UsableSandbox(pod *v1.Pod, status *PodStatus) (sandbox *SandboxStatus, problem string) {
	ready := 0
	for i := range status.Sandboxes {
		if status.Sandboxes[i].Ready {
			ready++
		}
	}
	newest := status.ReadySandbox()
	switch {
	case len(status.Sandboxes) == 0:
		return nil, "no pod sandbox exists"
	case ready > 1:
		return nil, "multiple pod sandboxes are ready"
	case newest == nil:
		return nil, "pod sandbox is not ready"
	case newest.HostNetwork != pod.Spec.HostNetwork:
		return nil, "pod sandbox has another network namespace mode"
	case !newest.HostNetwork && len(newest.IPs) == 0:
		return nil, "pod sandbox has no IP address"
	default:
		return newest, ""
	}
}

// IPs returns the addresses of the pod's ready sandbox, primary first.
func (s *PodStatus) IPs() []string {
	if sandbox := s.ReadySandbox(); sandbox != nil {
		return sandbox.IPs
	}
	return nil
}

// Container returns the newest attempt of the container of that name, or nil.
func (s *PodStatus) Container(name string) *ContainerStatus {
	return s.find(func(c *ContainerStatus) bool { return c.Name == name })
}

// Exited returns the newest ended attempt of the container of that name, or nil.
func (s *PodStatus) Exited(name string) *ContainerStatus {
	return s.find(func(c *ContainerStatus) bool { return c.Name == name && c.State == StateExited })
}

// ContainerByID returns the attempt with that id, or nil.
func (s *PodStatus) ContainerByID(id string) *ContainerStatus {
	return s.find(func(c *ContainerStatus) bool { return c.ID == id })
}

func (s *PodStatus) find(wanted func(*ContainerStatus) bool) *ContainerStatus {
	for i := range s.Containers {
		if wanted(&s.Containers[i]) {
			return &s.Containers[i]
		}
	}
	return nil
}
