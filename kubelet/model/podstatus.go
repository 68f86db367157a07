package model

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodStatus is what the runtime says of one pod at one time. It is immutable once made.
type PodStatus struct {
	UID             types.UID
	Name, Namespace string
	// Sandboxes are the pod's sandboxes, newest first.
	Sandboxes []SandboxStatus
	// Containers are all attempts of all containers that still exist, newest first for each name.
	Containers []ContainerStatus
	// ObservedAt is the time before the first question to the runtime: whatever was done before it is observed.
	ObservedAt time.Time
}

// SandboxStatus is one sandbox.
type SandboxStatus struct {
	ID        string
	Attempt   uint32
	Ready     bool
	CreatedAt time.Time
	// IPs holds the primary address first; it is empty in the host's network.
	IPs         []string
	HostNetwork bool
	Annotations map[string]string
}

// ContainerState is the state of one attempt.
type ContainerState string

// The states that a runtime reports.
const (
	StateCreated ContainerState = "created"
	StateRunning ContainerState = "running"
	StateExited  ContainerState = "exited"
	StateUnknown ContainerState = "unknown"
)

// ContainerStatus is one attempt of a container.
type ContainerStatus struct {
	ID, SandboxID, Name string
	// Attempt counts from 0; it is the number of restarts before this one.
	Attempt uint32
	State   ContainerState
	// The times are zero as long as they did not happen.
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason, Message                  string
	// Image is the name in the pod, ImageID the runtime's identity of the image, ImageRef what it was pulled as.
	Image, ImageID, ImageRef string
	// Hash is AnnotationHash: what of the container's specification was in force when it was made.
	Hash string
	// Resources are those that the container was made with, nil where its annotation does not say.
	Resources *v1.ResourceRequirements
	// Applied are the limits that are in force by the runtime's word, nil where it does not say.
	Applied *AppliedLimits
	// LogPath is the absolute path of the log.
	LogPath     string
	Annotations map[string]string
}

// AppliedLimits are a container's limits as the CRI has them (LinuxContainerResources). 0 is none, or one that the
// runtime does not tell.
type AppliedLimits struct {
	// CPUShares weigh, CPUQuota limits per CPUPeriod; both are in microseconds. Memory is in bytes.
	CPUShares, CPUQuota, CPUPeriod, Memory int64
}

// Running says whether any container of the pod runs. One whose state the runtime cannot tell counts, because it may.
func (s *PodStatus) Running() bool {
	return slices.ContainsFunc(s.Containers, func(container ContainerStatus) bool {
		return container.State == StateRunning || container.State == StateUnknown
	})
}

// Alive says whether the runtime still works on the pod: any ready sandbox or a running container.
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

// IPs are the pod's addresses, primary first: those of its ready sandbox.
func (s *PodStatus) IPs() []string {
	if sandbox := s.ReadySandbox(); sandbox != nil {
		return sandbox.IPs
	}
	return nil
}

// Container returns the newest attempt of the container of that name, or nil.
func (s *PodStatus) Container(name string) *ContainerStatus {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// Exited returns the newest attempt of the container of that name that has ended, or nil.
func (s *PodStatus) Exited(name string) *ContainerStatus {
	for i := range s.Containers {
		if s.Containers[i].Name == name && s.Containers[i].State == StateExited {
			return &s.Containers[i]
		}
	}
	return nil
}

// ContainerByID returns the attempt with that id, or nil.
func (s *PodStatus) ContainerByID(id string) *ContainerStatus {
	for i := range s.Containers {
		if s.Containers[i].ID == id {
			return &s.Containers[i]
		}
	}
	return nil
}
