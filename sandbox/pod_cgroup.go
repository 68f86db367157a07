package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/cgroup"
	"github.com/criadapter/criadapter/internal/step"
)

// podCgroups limits and removes the pods' cgroups that this program owns. A pod's cgroup is the parent that its
// configuration names. A kubelet makes that cgroup before the pod, limits it and removes it. If the cgroup is missing,
// this program owns it: the engine makes it with the sandbox container, or criadapter makes it. criadapter then sets
// the limits and removes the cgroup.
type podCgroups struct{ opts *Options }

// systemdDriver is the name of the engine's cgroup driver that has systemd make and remove cgroups.
const systemdDriver = "systemd"

// recordNew records a pod's cgroup that does not exist yet. The record makes this program the owner.
func (c podCgroups) recordNew(p *pending) {
	if !c.isMissing(p) {
		return
	}
	p.record.Cgroup = &p.cgroup
	p.undo.push("remove the pod's cgroup", func(ctx context.Context) error {
		c.remove(ctx, p.record)
		return nil
	})
}

// isMissing reports whether a pod has a cgroup of its own that does not exist.
func (c podCgroups) isMissing(p *pending) bool {
	if c.opts.Cgroups == nil || p.config.GetLinux().GetCgroupParent() == "" {
		return false
	}
	dirs := c.opts.Cgroups.ParentDirs(p.cgroup.Driver, p.cgroup.Parent)
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return len(dirs) > 0
}

// limit writes a pod's limits into its cgroup, if this program owns it. An error names the field, with prefix before
// its name.
func (c podCgroups) limit(ctx context.Context, record checkpoint.Record, limits translate.PodLimits,
	prefix string) (undo func(), err error) {
	if record.Cgroup == nil || c.opts.Cgroups == nil {
		return func() {}, nil
	}
	var files []cgroup.File
	for _, file := range limits.Files(c.opts.Cgroups.ParentDirs(record.Cgroup.Driver, record.Cgroup.Parent)) {
		files = append(files, cgroup.File{Path: file.Name, Value: file.Value, Field: prefix + file.Field})
	}
	return cgroup.Write(ctx, files)
}

// remove removes a pod's cgroup if this program owns it and it is empty. systemd removes its slices by itself. A
// failure is only logged: the cgroup has no processes, so the pod can be removed all the same.
func (c podCgroups) remove(ctx context.Context, record checkpoint.Record) {
	defer step.At("cgroup: remove")()
	if record.Cgroup == nil || c.opts.Cgroups == nil || record.Cgroup.Driver == systemdDriver {
		return
	}
	for _, dir := range c.opts.Cgroups.ParentDirs(record.Cgroup.Driver, record.Cgroup.Parent) {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.G(ctx).WithError(err).WithFields(log.Fields{"podSandboxID": record.SandboxID, "directory": dir}).
				Debug("cannot remove cgroup of pod")
		}
	}
}
