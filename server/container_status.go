package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// ContainerStatus returns one container.
func (s *Server) ContainerStatus(
	ctx context.Context, req *runtimeapi.ContainerStatusRequest,
) (*runtimeapi.ContainerStatusResponse, error) {
	if err := require(need{"container_id", req.GetContainerId() != ""}); err != nil {
		return nil, err
	}
	snapshot, container, err := s.container(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	response := &runtimeapi.ContainerStatusResponse{Status: containerStatus(container)}
	if req.GetVerbose() {
		response.Info, err = s.containerInfo(ctx, snapshot, container)
	}
	return response, err
}

// containerStatus converts a container. The result shares memory with the snapshot, which is immutable.
func containerStatus(c *state.Container) *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		Id:          c.ID,
		Metadata:    c.Meta.Config.GetMetadata(),
		State:       c.Status.State(),
		CreatedAt:   nanoseconds(c.Meta.CreatedAt),
		StartedAt:   nanoseconds(c.Status.StartedAt),
		FinishedAt:  nanoseconds(c.Status.FinishedAt),
		ExitCode:    int32(c.Status.ExitCode),
		Image:       imageOf(c),
		ImageRef:    c.Meta.ImageRef,
		Reason:      reason(c),
		Message:     c.Status.Error,
		Labels:      c.Meta.Config.GetLabels(),
		Annotations: c.Meta.Config.GetAnnotations(),
		Mounts:      c.Meta.Config.GetMounts(),
		LogPath:     c.Meta.LogPath,
		Resources:   c.Status.Resources,
		ImageId:     c.Meta.ImageID,
		User:        containerUser(c),
		StopSignal:  stopSignal(c.Meta.StopSignal),
	}
}

// Reasons of an exit. The kubelet and its users compare them literally.
const (
	reasonOOMKilled = "OOMKilled"
	reasonCannotRun = "ContainerCannotRun"
	reasonCompleted = "Completed"
	reasonError     = "Error"
)

// reason returns why a container has ended, empty before its end. The engine reports OOMKilled even if only a child
// process was killed. So a container with exit code 0 counts as completed.
func reason(c *state.Container) string {
	switch {
	case c.Status.State() != runtimeapi.ContainerState_CONTAINER_EXITED:
		return ""
	case neverRan(c):
		return reasonCannotRun
	case c.Status.OOMKilled && c.Status.ExitCode != 0:
		return reasonOOMKilled
	case c.Status.ExitCode == 0:
		return reasonCompleted
	default:
		return reasonError
	}
}

// neverRan reports whether a container's start failed. After a failed start the engine reports an error, or the cache
// has the creation time as the times of start and end.
func neverRan(c *state.Container) bool {
	st := c.Status
	return st.Error != "" ||
		st.ExitCode != 0 && st.StartedAt.Equal(st.FinishedAt) && st.StartedAt.Equal(c.Meta.CreatedAt)
}
