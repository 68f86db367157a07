package cri

import (
	"encoding/json"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

func sandboxStatus(s *runtimeapi.PodSandboxStatus) model.SandboxStatus {
	out := model.SandboxStatus{
		ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(), Ready: s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
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

func containerStatus(sandboxID string, s *runtimeapi.ContainerStatus) model.ContainerStatus {
	out := model.ContainerStatus{
		ID: s.GetId(), SandboxID: sandboxID, Name: s.GetMetadata().GetName(), Attempt: s.GetMetadata().GetAttempt(),
		State: containerState(s.GetState()), CreatedAt: at(s.GetCreatedAt()), StartedAt: at(s.GetStartedAt()),
		FinishedAt: at(s.GetFinishedAt()), ExitCode: s.GetExitCode(), Reason: s.GetReason(), Message: s.GetMessage(),
		Image: imageName(s), ImageID: s.GetImageId(), ImageRef: s.GetImageRef(), Hash: s.GetAnnotations()[model.AnnotationHash],
		LogPath: s.GetLogPath(), Annotations: s.GetAnnotations(),
	}
	if text := out.Annotations[model.AnnotationResources]; text != "" {
		var resources v1.ResourceRequirements
		if json.Unmarshal([]byte(text), &resources) == nil { // else nobody knows, as of a container without it
			out.Resources = &resources
		}
	}
	if linux := s.GetResources().GetLinux(); linux != nil {
		out.Applied = &model.AppliedLimits{
			CPUShares: linux.GetCpuShares(), CPUQuota: linux.GetCpuQuota(), CPUPeriod: linux.GetCpuPeriod(), Memory: linux.GetMemoryLimitInBytes(),
		}
	}
	if out.State == model.StateExited {
		if message := terminationMessage(s); message != "" {
			out.Message = message
		}
	}
	return out
}

// imageName is the image as the pod named it: the CRI image field may hold an id.
func imageName(s *runtimeapi.ContainerStatus) string {
	if name := s.GetImage().GetUserSpecifiedImage(); name != "" {
		return name
	}
	return s.GetImage().GetImage()
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

// at is a CRI timestamp, nanoseconds since 1970, as a time; 0 means never.
func at(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

const (
	// maxMessage bounds a termination message, and maxMessageLines what is taken from the log instead; the kubelet's limits.
	maxMessage      = 4096
	maxLogBytes     = 2048
	maxMessageLines = 80
)

// terminationMessage is what the container left at its termination message path; with the policy
// FallbackToLogsOnError it is the end of the log of one that failed and left nothing.
func terminationMessage(s *runtimeapi.ContainerStatus) string {
	if path := s.GetAnnotations()[model.AnnotationTerminationMessagePath]; path != "" {
		for _, mount := range s.GetMounts() {
			if mount.GetContainerPath() != path {
				continue
			}
			if message := tail(mount.GetHostPath(), maxMessage); message != "" {
				return message
			}
		}
	}
	policy := s.GetAnnotations()[model.AnnotationTerminationMessagePolicy]
	if policy != "FallbackToLogsOnError" || s.GetExitCode() == 0 || s.GetLogPath() == "" {
		return ""
	}
	return logText(tail(s.GetLogPath(), 4*maxLogBytes))
}

// tail reads at most limit bytes from the end of a regular file; what cannot be read is empty. A pod may have put a pipe
// there, whose opening would wait for a writer for ever.
func tail(path string, limit int64) string {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	buffer := make([]byte, min(limit, info.Size()))
	n, _ := file.ReadAt(buffer, max(0, info.Size()-limit)) // what was read up to an error is still the end of the file
	return string(buffer[:n])
}

// logText strips CRI log lines of their first three columns (time, stream, tag) and keeps the last of them.
func logText(raw string) string {
	lines := strings.SplitAfter(raw, "\n")
	var kept []string
	size := 0
	for i := len(lines) - 1; i >= 0 && len(kept) < maxMessageLines; i-- {
		fields := strings.SplitN(lines[i], " ", 4)
		if len(fields) < 4 {
			continue
		}
		if size += len(fields[3]); size > maxLogBytes {
			break
		}
		kept = append(kept, fields[3])
	}
	var text strings.Builder
	for i := len(kept) - 1; i >= 0; i-- {
		text.WriteString(kept[i])
	}
	return text.String()
}
