package cri

import (
	"context"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RecursiveReadOnlyMounts says whether the runtime's default handler can make mounts read-only with all below them. One
// that does not say cannot.
func (r *Runtime) RecursiveReadOnlyMounts(ctx context.Context) bool {
	status, err := r.Status(ctx, false)
	if err != nil {
		log.G(ctx).WithError(err).Info("container runtime does not report its features: nothing that it may lack is asked of it")
		return false
	}
	for _, handler := range status.GetRuntimeHandlers() {
		if handler.GetName() == "" {
			return handler.GetFeatures().GetRecursiveReadOnlyMounts()
		}
	}
	return false
}

// UserNamespaces says whether a runtime handler, empty for the default one, can give pods user namespaces of their own,
// as the runtime announces it. One that does not say cannot.
func (r *Runtime) UserNamespaces(ctx context.Context, handler string) (bool, error) {
	status, err := r.Status(ctx, false)
	if err != nil {
		return false, err
	}
	for _, known := range status.GetRuntimeHandlers() {
		if known.GetName() == handler {
			return known.GetFeatures().GetUserNamespaces(), nil
		}
	}
	return false, nil
}

// ImageDirectory is the directory where the runtime keeps images; empty if it does not say.
func (r *Runtime) ImageDirectory(ctx context.Context) string {
	info, err := r.ImageFsInfo(ctx)
	if err != nil || len(info.GetImageFilesystems()) == 0 {
		log.G(ctx).WithError(err).Info("container runtime does not report where its images are: their disk is taken for the pods'")
		return ""
	}
	return info.GetImageFilesystems()[0].GetFsId().GetMountpoint()
}

// CgroupDriver is who makes the runtime's cgroups, systemd or cgroupfs; empty if it does not say (RuntimeConfig is
// younger than containerd 1.6).
func (r *Runtime) CgroupDriver(ctx context.Context) string {
	answer, err := r.RuntimeConfig(ctx)
	if err != nil || answer.GetLinux() == nil {
		return ""
	}
	switch answer.GetLinux().GetCgroupDriver() {
	case runtimeapi.CgroupDriver_SYSTEMD:
		return "systemd"
	case runtimeapi.CgroupDriver_CGROUPFS:
		return "cgroupfs"
	default:
		return ""
	}
}
