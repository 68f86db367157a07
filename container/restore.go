package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/container/dump"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// restoreName is the name of the checkpoint in the engine's directory of a container that is to be restored.
const restoreName = "restore"

// Restore makes a container in a pod from the checkpoint in dir (a part of CRI RestorePod). The container is CREATED
// and has the checkpoint's files. Its Start continues the checkpoint's processes. Restore fails with ErrInvalidArgument
// if config describes another process than the checkpoint's.
func (s *Service) Restore(
	ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, podConfig *runtimeapi.PodSandboxConfig,
	dir string,
) (id string, err error) {
	if err := docker.CheckCheckpoint(ctx, s.opts.Engine); err != nil {
		return "", err
	}
	kept, err := dump.Read(dir)
	if err != nil {
		return "", err
	}
	if err := s.checkSame(ctx, kept, config); err != nil {
		return "", err
	}
	if id, err = s.Create(ctx, sandboxID, config, podConfig); err != nil {
		return "", err
	}
	if err = s.fill(ctx, sandboxID, id, config, dir, kept); err != nil {
		defer s.opts.Plugins.Block()()
		c := s.latest(&state.Container{ID: id, SandboxID: sandboxID})
		return "", errors.Join(err, s.unmake(ctx, s.opts.Cache.Snapshot().PodOf(c), c))
	}
	return id, nil
}

// checkSame refuses a configuration that describes another process than the checkpoint's.
func (s *Service) checkSame(ctx context.Context, kept dump.Container, config *runtimeapi.ContainerConfig) error {
	was := &runtimeapi.ContainerConfig{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(kept.CRI, was); err != nil {
		return fmt.Errorf("the checkpoint's configuration cannot be read: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	image, err := s.opts.Images.Resolve(ctx, config.GetImage().GetImage())
	if err != nil {
		return fmt.Errorf("image.image: %w", err)
	}
	differs := func(field string) error {
		return fmt.Errorf("%s: it differs from the checkpoint's: %w", field, errdefs.ErrInvalidArgument)
	}
	user := func(c *runtimeapi.ContainerConfig) *runtimeapi.LinuxContainerSecurityContext {
		sc := c.GetLinux().GetSecurityContext()
		return &runtimeapi.LinuxContainerSecurityContext{
			RunAsUser: sc.GetRunAsUser(), RunAsGroup: sc.GetRunAsGroup(), RunAsUsername: sc.GetRunAsUsername(),
			SupplementalGroups: sc.GetSupplementalGroups(), SupplementalGroupsPolicy: sc.GetSupplementalGroupsPolicy(),
		}
	}
	process := func(c *runtimeapi.ContainerConfig) *runtimeapi.ContainerConfig {
		return &runtimeapi.ContainerConfig{Command: c.GetCommand(), Args: c.GetArgs(), WorkingDir: c.GetWorkingDir(),
			Envs: c.GetEnvs()}
	}
	switch {
	case image != kept.Config.ImageRef:
		return differs("image.image")
	case !proto.Equal(process(was), process(config)):
		return differs("command, args, working_dir or envs")
	case readOnlyRoot(was) != readOnlyRoot(config): // a read-only root takes no files of the checkpoint
		return differs("linux.security_context.readonly_rootfs")
	case !slices.Equal(mountTargets(was), mountTargets(config)): // the checkpoint's files would go into a new mount
		return differs("mounts")
	case !proto.Equal(user(was), user(config)):
		return differs("linux.security_context: the user")
	}
	return nil
}

func readOnlyRoot(c *runtimeapi.ContainerConfig) bool {
	return c.GetLinux().GetSecurityContext().GetReadonlyRootfs()
}

// fill puts the checkpoint and its files into a new container.
func (s *Service) fill(
	ctx context.Context, sandboxID, id string, config *runtimeapi.ContainerConfig, dir string, kept dump.Container,
) error {
	if !readOnlyRoot(config) { // a read-only root has no changed files, and the engine refuses to copy into it
		if err := s.copyFiles(ctx, id, "/", filepath.Join(dir, dump.Files)); err != nil {
			return err
		}
	}
	if err := s.fillVolumes(ctx, id, dir); err != nil {
		return err
	}
	if err := s.deleteFiles(id, kept.Deleted); err != nil {
		return err
	}
	place, err := s.restoreDir(ctx, id)
	if err != nil {
		return err
	}
	if err := dump.Copy(filepath.Join(dir, dump.Processes), place); err != nil {
		return err
	}
	return s.saveRecord(ctx, sandboxID, id, func(c *checkpoint.Container) { c.Restore = restoreName })
}

// restoreDir returns the only directory from which the engine restores a container.
func (s *Service) restoreDir(ctx context.Context, id string) (string, error) {
	features, err := s.opts.Engine.Features(ctx)
	return filepath.Join(features.Root, "containers", id, "checkpoints", restoreName), err
}

// copyFiles extracts an archive into a directory of a container.
func (s *Service) copyFiles(ctx context.Context, id, target, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	return s.opts.Engine.CopyToContainer(ctx, id, target, file)
}

// deleteFiles hides files of the image from a container that has never run. The engine has no call for this. So
// deleteFiles makes whiteouts in the container's own overlay layer, which is not mounted yet.
func (s *Service) deleteFiles(id string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	c, err := s.find(id)
	if err != nil {
		return err
	}
	if c.Meta.UpperDir == "" {
		return fmt.Errorf(
			"the container had deleted files of its image, which cannot be restored with this storage driver: %w",
			errdefs.ErrFailedPrecondition)
	}
	layer, err := os.OpenRoot(c.Meta.UpperDir)
	if err != nil {
		return err
	}
	defer func() { _ = layer.Close() }()
	for _, name := range names {
		if err := whiteout(layer, path.Join(".", name)); err != nil {
			return fmt.Errorf("deleting %s: %w", name, err)
		}
	}
	return nil
}

// whiteout marks a file as missing in a layer.
func whiteout(layer *os.Root, name string) error {
	if err := layer.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	parent, err := layer.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	err = unix.Mknodat(int(parent.Fd()), path.Base(name), unix.S_IFCHR, 0)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// begin starts a created container, from its checkpoint if it has one. Nothing reads the checkpoint after the start,
// and it has the memory of processes, so begin removes it.
func (s *Service) begin(ctx context.Context, sandboxID, id string) error {
	kept, err := s.loadRecord(ctx, sandboxID, id)
	if err != nil {
		return err
	}
	if kept == nil || kept.Restore == "" {
		return s.opts.Engine.StartContainer(ctx, id)
	}
	if err := s.opts.Engine.RestoreContainer(ctx, id, kept.Restore); err != nil {
		return err
	}
	place, err := s.restoreDir(ctx, id)
	if err == nil {
		err = os.RemoveAll(place)
	}
	if err != nil {
		log.G(ctx).WithError(err).Warn("the container is restored, but a copy of its memory is left at the engine")
	}
	return nil
}
