package cri

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/log"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RecursiveReadOnlyMounts says whether the runtime's default handler reports recursive read-only mounts.
func (r *Runtime) RecursiveReadOnlyMounts(ctx context.Context) bool {
	features, err := r.features(ctx, "")
	if err != nil {
		log.G(ctx).WithError(err).Info("container runtime does not report its features: optional features are not used")
	}
	return features.GetRecursiveReadOnlyMounts()
}

// UserNamespaces says whether a runtime handler reports user namespaces for pods. An empty name is the default handler.
func (r *Runtime) UserNamespaces(ctx context.Context, handler string) (bool, error) {
	features, err := r.features(ctx, handler)
	return features.GetUserNamespaces(), err
}

// features are the features of a handler, nil if the runtime reports none.
func (r *Runtime) features(ctx context.Context, handler string) (*runtimeapi.RuntimeHandlerFeatures, error) {
	answer, err := r.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, known := range answer.GetRuntimeHandlers() {
		if known.GetName() == handler {
			return known.GetFeatures(), nil
		}
	}
	return nil, nil
}

// ImageDirectory is the directory where the runtime keeps images, empty if it reports none.
func (r *Runtime) ImageDirectory(ctx context.Context) string {
	info, err := r.ImageFsInfo(ctx)
	if err == nil && len(info.GetImageFilesystems()) == 0 {
		err = errors.New("ImageFsInfo has no image file system")
	}
	if err != nil {
		log.G(ctx).WithError(err).
			Info("container runtime does not report the directory of its images: eviction uses the pods' disk instead")
		return ""
	}
	return info.GetImageFilesystems()[0].GetFsId().GetMountpoint()
}

// CgroupDriver is the runtime's cgroup driver, systemd or cgroupfs. It is empty if the runtime does not report it:
// containerd 1.6 has no RuntimeConfig, and criadapter refuses that call if its engine's driver is none.
func (r *Runtime) CgroupDriver(ctx context.Context) (string, error) {
	return cgroupDriver(ctx, r.RuntimeService)
}

func cgroupDriver(ctx context.Context, runtime internalapi.RuntimeService) (string, error) {
	answer, err := runtime.RuntimeConfig(ctx)
	switch {
	case status.Code(err) == codes.Unimplemented, status.Code(err) == codes.FailedPrecondition:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("the runtime's cgroup driver: %w", err)
	case answer.GetLinux() == nil:
		return "", nil
	}
	switch answer.GetLinux().GetCgroupDriver() {
	case runtimeapi.CgroupDriver_SYSTEMD:
		return "systemd", nil
	case runtimeapi.CgroupDriver_CGROUPFS:
		return "cgroupfs", nil
	default:
		return "", nil
	}
}
