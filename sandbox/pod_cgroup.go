package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/cgroup"
	"github.com/criadapter/criadapter/internal/step"
	"github.com/criadapter/criadapter/state"
)

// A pod's cgroup is the parent that its configuration names. A kubelet makes it before the pod, limits it and removes
// it. Where nobody has made it, the engine does with the sandbox container, or we do, and then its limits, and its end, are
// our affair.

// systemdDriver is the name of the engine's cgroup driver whose cgroups are systemd's to make.
const systemdDriver = "systemd"

// noteCgroup notes a pod's cgroup that nobody has made yet: it goes with the pod.
func (s *Service) noteCgroup(p *pending) {
	if !s.lacksCgroup(p) {
		return
	}
	p.record.Cgroup = &checkpoint.Cgroup{Driver: p.cgroupDriver, Parent: p.cgroupParent}
	p.undo.push("remove the pod's cgroup", func(ctx context.Context) error {
		s.removeCgroup(ctx, p.record)
		return nil
	})
}

// lacksCgroup reports whether a pod's cgroup is its own and not there.
func (s *Service) lacksCgroup(p *pending) bool {
	if s.opts.Cgroups == nil || p.config.GetLinux().GetCgroupParent() == "" {
		return false
	}
	dirs := s.opts.Cgroups.ParentDirs(p.cgroupDriver, p.cgroupParent)
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return len(dirs) > 0
}

// limitPod writes a pod's limits into its cgroup, where that is ours. prefix is before the fields in messages.
func (s *Service) limitPod(ctx context.Context, record checkpoint.Record, limits translate.PodLimits, prefix string) (undo func(), err error) {
	if record.Cgroup == nil || s.opts.Cgroups == nil {
		return func() {}, nil
	}
	var files []cgroup.File
	for _, file := range limits.Files(s.opts.Cgroups.ParentDirs(record.Cgroup.Driver, record.Cgroup.Parent)) {
		files = append(files, cgroup.File{Path: file.Name, Value: file.Value, Field: prefix + file.Field})
	}
	return cgroup.Write(ctx, files)
}

// removeCgroup removes a pod's cgroup that is ours, and empty; systemd removes its slices by itself. What is left has
// no processes and no limits that matter, so it keeps no pod from being removed.
func (s *Service) removeCgroup(ctx context.Context, record checkpoint.Record) {
	defer step.At("cgroup: remove")()
	if record.Cgroup == nil || s.opts.Cgroups == nil || record.Cgroup.Driver == systemdDriver {
		return
	}
	for _, dir := range s.opts.Cgroups.ParentDirs(record.Cgroup.Driver, record.Cgroup.Parent) {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.G(ctx).WithError(err).WithFields(log.Fields{"podSandboxID": record.SandboxID, "directory": dir}).Debug("cannot remove cgroup of pod")
		}
	}
}

// UpdateResources changes what limits a running pod (CRI UpdatePodSandboxResources): what is nil stays. A kubelet tells
// of a resize before it writes the pod's cgroup, and takes any error for a refusal; then only the record changes, which
// PodSandboxStatus shows. It fails with ErrNotFound for an unknown id, ErrInvalidArgument naming the field, and
// ErrFailedPrecondition for a pod that is not ready. On an error the old limits are in force.
func (s *Service) UpdateResources(ctx context.Context, id string, overhead, resources *runtimeapi.LinuxContainerResources) error {
	pod, err := s.opts.Cache.Snapshot().Pod(id)
	if err != nil {
		return err
	}
	unlock, err := s.locks.Lock(ctx, pod.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if pod, err = s.opts.Cache.Snapshot().Pod(pod.ID); err != nil {
		return err
	}
	if pod.Status.State() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return fmt.Errorf("pod sandbox %s is not ready, its resources cannot be updated: %w", pod.ID, errdefs.ErrFailedPrecondition)
	}
	limits := translate.PodLimits{Overhead: overhead, Resources: resources}
	if err := limits.Check(""); err != nil {
		return err
	}
	if overhead == nil {
		limits.Overhead = pod.Status.Overhead
	}
	if resources == nil {
		limits.Resources = pod.Status.Resources
	}
	return s.putLimits(ctx, pod, limits)
}

// putLimits puts limits into force: the cgroup's files, then the record, then everybody.
func (s *Service) putLimits(ctx context.Context, pod *state.Pod, limits translate.PodLimits) error {
	record, err := s.recordOf(ctx, pod)
	if err != nil {
		return err
	}
	undo, err := s.limitPod(ctx, record, limits, "")
	if err != nil {
		return err
	}
	err = docker.IgnoreNotFound(s.opts.Store.Update(ctx, pod.ID, func(r *checkpoint.Record) (err error) {
		r.Config, err = withLimits(r.Config, limits)
		return err
	}))
	if err != nil {
		undo()
		return err
	}
	s.opts.Cache.UpdatePod(pod.ID, func(status *state.PodStatus) {
		status.Overhead, status.Resources = limits.Overhead, limits.Resources
	})
	return nil
}

// withLimits is a pod's configuration in its record with other limits.
func withLimits(raw []byte, limits translate.PodLimits) ([]byte, error) {
	config := &runtimeapi.PodSandboxConfig{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, config); err != nil {
		return nil, fmt.Errorf("the pod's configuration in its checkpoint cannot be read: %w: %w", err, errdefs.ErrDataLoss)
	}
	if config.Linux == nil {
		config.Linux = &runtimeapi.LinuxPodSandboxConfig{}
	}
	config.Linux.Overhead, config.Linux.Resources = limits.Overhead, limits.Resources
	return protojson.Marshal(config)
}
