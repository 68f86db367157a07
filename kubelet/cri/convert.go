package cri

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

func sandboxStatus(s *runtimeapi.PodSandboxStatus) model.SandboxStatus {
	out := model.SandboxStatus{
		ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(),
		Ready:     s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: at(s.GetCreatedAt()), Annotations: s.GetAnnotations(),
		HostNetwork: s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
	}
	if ip := s.GetNetwork().GetIp(); ip != "" && !out.HostNetwork {
		out.IPs = append(out.IPs, ip)
		for _, more := range s.GetNetwork().GetAdditionalIps() {
			out.IPs = append(out.IPs, more.GetIp())
		}
	}
	return out
}

func containerStatus(ctx context.Context, sandboxID string, s *runtimeapi.ContainerStatus) model.ContainerStatus {
	out := model.ContainerStatus{
		ID: s.GetId(), SandboxID: sandboxID, Name: s.GetMetadata().GetName(), Attempt: s.GetMetadata().GetAttempt(),
		State: containerState(s.GetState()), CreatedAt: at(s.GetCreatedAt()), StartedAt: at(s.GetStartedAt()),
		FinishedAt: at(s.GetFinishedAt()), ExitCode: s.GetExitCode(), Reason: s.GetReason(), Message: s.GetMessage(),
		// The name in the pod comes first, because the CRI image field may be an id.
		Image:   cmp.Or(s.GetImage().GetUserSpecifiedImage(), s.GetImage().GetImage()),
		ImageID: s.GetImageId(), ImageRef: s.GetImageRef(), Hash: s.GetAnnotations()[model.AnnotationHash],
		LogPath: s.GetLogPath(), Annotations: s.GetAnnotations(),
		User: containerUser(s.GetUser()), StopSignal: stopSignal(s.GetStopSignal()), Mounts: mounts(s.GetMounts()),
	}
	if text := out.Annotations[model.AnnotationResources]; text != "" {
		var resources v1.ResourceRequirements
		if json.Unmarshal([]byte(text), &resources) == nil {
			out.Resources = &resources
		}
	}
	if linux := s.GetResources().GetLinux(); linux != nil {
		out.Actual = &model.ActualLimits{
			CPUShares: linux.GetCpuShares(), CPUQuota: linux.GetCpuQuota(), CPUPeriod: linux.GetCpuPeriod(),
			Memory: linux.GetMemoryLimitInBytes(),
		}
	}
	if out.State == model.StateExited {
		if message := terminationMessage(ctx, s); message != "" {
			out.Message = message
		}
	}
	return out
}

// containerUser converts the user of a container. It returns nil if the runtime reports no user.
func containerUser(user *runtimeapi.ContainerUser) *v1.ContainerUser {
	linux := user.GetLinux()
	if linux == nil {
		return nil
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{
		UID: linux.GetUid(), GID: linux.GetGid(), SupplementalGroups: linux.GetSupplementalGroups(),
	}}
}

// stopSignal converts a signal. It returns nil if the runtime reports no signal. Protocol buffer names have no + and -:
// SIGRTMIN+3 is SIGRTMINPLUS3.
func stopSignal(signal runtimeapi.Signal) *v1.Signal {
	if signal == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return nil
	}
	name := strings.TrimPrefix(signal.String(), "SIGNAL_")
	return new(v1.Signal(strings.NewReplacer("PLUS", "+", "MINUS", "-").Replace(name)))
}

func mounts(list []*runtimeapi.Mount) map[string]model.Mount {
	found := make(map[string]model.Mount, len(list))
	for _, m := range list {
		found[m.GetContainerPath()] = model.Mount{
			RecursiveReadOnly: m.GetRecursiveReadOnly(), ImageRef: m.GetImage().GetImageRef(),
		}
	}
	return found
}

func containerState(state runtimeapi.ContainerState) model.ContainerState {
	switch state {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return model.StateCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return model.StateRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return model.StateExited
	default:
		return model.StateUnknown
	}
}

// at converts a CRI timestamp, in nanoseconds since 1970. 0 is the zero time.
func at(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}
