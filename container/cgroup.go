package container

import (
	"context"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/cgroup"
	"github.com/criadapter/criadapter/state"
)

// Cgroups finds the cgroups of containers. *stats.Collector implements it.
type Cgroups interface {
	// CgroupDir returns the directory of a container's cgroup that has a controller's files. unified is true for cgroup
	// v2. It fails with ErrNotFound if the process is gone or the cgroup is not visible.
	CgroupDir(containerID string, pid int, controller string) (dir string, unified bool, err error)
	// OOMKills counts processes that the kernel killed for want of memory below a cgroup parent. It includes cgroups
	// that are gone, and the cgroup of containerID. containerID may be empty. ok is false if the count is unknown.
	OOMKills(parent, containerID string) (kills uint64, ok bool)
}

// limit applies the limits for which the Docker API has no field, or no field in an update. For a container that does
// not run yet, they go into its OCI note. After an error no limit has changed; undo restores the old limits. field is
// the path of the limits in the request, for errors.
func (s *Service) limit(
	ctx context.Context, c *state.Container, field string, wanted *runtimeapi.LinuxContainerResources,
) (undo func(), err error) {
	if !c.Status.Running {
		return s.limitNote(ctx, c, wanted)
	}
	undoFiles, err := s.limitCgroup(ctx, c, field, wanted)
	if err != nil {
		return func() {}, err
	}
	undoScore, err := s.setOOMScore(ctx, c, field, wanted)
	if err != nil {
		undoFiles()
		return func() {}, err
	}
	return func() { undoScore(); undoFiles() }, nil
}

// limitNote writes the limits of a created container into its OCI note, if it has one, so that they apply from its
// first instruction on.
func (s *Service) limitNote(
	ctx context.Context, c *state.Container, wanted *runtimeapi.LinuxContainerResources,
) (undo func(), err error) {
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED {
		return func() {}, nil
	}
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return func() {}, err
	}
	old, err := s.opts.Engine.LimitNote(ctx, c.ID, translate.NoteLimits(wanted, features))
	return func() {
		if _, err := s.opts.Engine.LimitNote(context.WithoutCancel(ctx), c.ID, old); err != nil {
			log.G(ctx).WithError(err).WithFields(c.LogFields()).
				Warn("cannot restore the old limits in the OCI note of container")
		}
	}, err
}

// limitCgroup writes the limits that are files of the container's cgroup.
func (s *Service) limitCgroup(
	ctx context.Context, c *state.Container, field string, wanted *runtimeapi.LinuxContainerResources,
) (undo func(), err error) {
	if s.opts.Cgroups == nil || len(wanted.GetHugepageLimits())+len(wanted.GetUnified()) == 0 {
		return func() {}, nil
	}
	dir, unified, err := s.opts.Cgroups.CgroupDir(c.ID, c.Status.PID, translate.HugetlbController)
	if errdefs.IsNotFound(err) {
		// The container has ended, or this kernel has no such limits.
		log.G(ctx).WithError(err).WithFields(c.LogFields()).Debug("no cgroup to set hugepage and unified limits in")
		return func() {}, nil
	}
	if err != nil {
		return func() {}, err
	}
	var files []cgroup.File
	for _, file := range translate.CgroupFiles(wanted, unified) {
		files = append(files, cgroup.File{
			Path: filepath.Join(dir, file.Name), Value: file.Value, Field: field + "." + file.Field,
			Optional: file.Optional,
		})
	}
	return cgroup.Write(ctx, files)
}
