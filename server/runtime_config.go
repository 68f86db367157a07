package server

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RuntimeConfig returns the cgroup driver for the kubelet. It fails with Unavailable while the engine is away. The
// kubelet asks once, at its start, and a wrong answer would put every pod into the wrong cgroup.
func (s *Server) RuntimeConfig(
	ctx context.Context, _ *runtimeapi.RuntimeConfigRequest,
) (*runtimeapi.RuntimeConfigResponse, error) {
	features, err := s.engineFeatures(ctx)
	if err != nil {
		return nil, err
	}
	driver, err := cgroupDriver(features.CgroupDriver)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver}}, nil
}

func cgroupDriver(name string) (runtimeapi.CgroupDriver, error) {
	switch name {
	case "systemd":
		return runtimeapi.CgroupDriver_SYSTEMD, nil
	case "cgroupfs":
		return runtimeapi.CgroupDriver_CGROUPFS, nil
	default:
		return 0, fmt.Errorf(
			`the engine's cgroup driver is %q, pods need "systemd" or "cgroupfs" (native.cgroupdriver): %w`, name,
			errdefs.ErrFailedPrecondition)
	}
}
