package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/sys/mountinfo"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/container/dump"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/state"
)

// Checkpoint writes a running container into a tar archive at an absolute path (CRI CheckpointContainer), in the format
// of package dump. The container runs on. Checkpoint saves its files right after its processes. It fails with
// ErrFailedPrecondition for a container that does not run. It also does so if the engine cannot checkpoint, and the
// error says what is missing. After an error there is no archive. After a crash, the next start of criadapter removes
// the unfinished files.
func (s *Service) Checkpoint(ctx context.Context, id, location string) error {
	if err := docker.CheckCheckpoint(ctx, s.opts.Engine); err != nil {
		return err
	}
	if !filepath.IsAbs(location) {
		return fmt.Errorf("location: %q is not an absolute path: %w", location, errdefs.ErrInvalidArgument)
	}
	c, unlock, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if c.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return wrongState(c, "running")
	}
	if err := s.checkUsers(c); err != nil {
		return err
	}
	// The directory is on the archive's disk, because CRIU's files are as large as the container's memory. It also
	// holds the unfinished archive, so that a crash leaves no unfinished file outside of the directory.
	dir, remove, err := s.makeWorkDir(ctx, c.SandboxID, filepath.Dir(location))
	if err != nil {
		return err
	}
	defer remove()
	content, archive := filepath.Join(dir, "content"), filepath.Join(dir, "archive")
	if err := os.Mkdir(content, 0o700); err != nil {
		return notWritable(err)
	}
	if err := s.dump(ctx, c, content); err != nil {
		return err
	}
	if err := dump.Archive(ctx, content, archive); err != nil {
		return notWritable(err)
	}
	return notWritable(os.Rename(archive, location))
}

// notWritable turns an error of the file system into an ErrFailedPrecondition about the request's field location.
func notWritable(err error) error {
	var (
		path *fs.PathError
		link *os.LinkError
	)
	if errors.As(err, &path) || errors.As(err, &link) {
		return fmt.Errorf("location: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	return err
}

// CheckpointAll writes running containers of a pod into directories below dir that have the containers' names. All
// containers are paused meanwhile, so that the checkpoints show one moment. Afterwards the containers run on, also
// after an error. After a crash, the next start of criadapter resumes them. If a container is already paused,
// CheckpointAll fails with ErrFailedPrecondition, and the container stays paused.
func (s *Service) CheckpointAll(ctx context.Context, sandboxID string, ids []string, dir string) (err error) {
	if err := docker.CheckCheckpoint(ctx, s.opts.Engine); err != nil {
		return err
	}
	containers, err := s.runningIn(sandboxID, ids)
	if err != nil {
		return err
	}
	// All calls take the locks in the same order, so that two calls for one pod cannot deadlock.
	slices.SortFunc(containers, func(a, b *state.Container) int { return strings.Compare(a.ID, b.ID) })
	for _, c := range containers {
		unlock, err := s.locks.Lock(ctx, c.ID)
		if err != nil {
			return err
		}
		defer unlock()
	}
	for _, c := range containers {
		if err := s.pause(ctx, sandboxID, c.ID); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.unpause(ctx, sandboxID, c.ID)) }()
	}
	for _, c := range containers {
		own := filepath.Join(dir, c.Meta.Config.GetMetadata().GetName())
		if err := os.Mkdir(own, 0o700); err != nil {
			return err
		}
		if err := s.dump(ctx, c, own); err != nil {
			return err
		}
	}
	return nil
}

// runningIn finds the containers with these ids for CheckpointAll. Each must run in the pod, and its name must be valid
// for a directory of its own.
func (s *Service) runningIn(sandboxID string, ids []string) ([]*state.Container, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("container_ids is required: %w", errdefs.ErrInvalidArgument)
	}
	var found []*state.Container
	for i, id := range ids {
		field := "container_ids[" + strconv.Itoa(i) + "]"
		c, err := s.find(id)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", field, err)
		case c.SandboxID != sandboxID:
			return nil, fmt.Errorf("%s: container %s is in another pod: %w", field, c.ID, errdefs.ErrInvalidArgument)
		case c.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING:
			return nil, fmt.Errorf("%s: %w", field, wrongState(c, "running"))
		case slices.ContainsFunc(found, func(other *state.Container) bool { return other.ID == c.ID }):
			return nil, fmt.Errorf("%s: container %s is listed twice: %w", field, c.ID, errdefs.ErrInvalidArgument)
		}
		name := c.Meta.Config.GetMetadata().GetName()
		if filepath.Base(name) != name || !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s: the name %q of container %s cannot name a directory: %w", field, name, c.ID,
				errdefs.ErrInvalidArgument)
		}
		for _, other := range found {
			if other.Meta.Config.GetMetadata().GetName() == name {
				return nil, fmt.Errorf("%s: containers %s and %s have the name %q, and cannot be in one checkpoint: %w",
					field, other.ID, c.ID, name, errdefs.ErrInvalidArgument)
			}
		}
		if err := s.checkUsers(c); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		found = append(found, c)
	}
	return found, nil
}

// checkUsers refuses containers in a user namespace. criadapter-oci mounts the root and the volumes of such a container
// with mapped owners (idmapped mounts). These mounts are not in the node's mount namespace, and they end with the
// container. So CRIU would not find them.
func (s *Service) checkUsers(c *state.Container) error {
	pod, err := s.opts.Cache.Snapshot().Pod(c.SandboxID)
	if err != nil || pod.Status.UserNamespace == "" {
		return err
	}
	return fmt.Errorf("container %s is in its pod's own user namespace and cannot be checkpointed: %w", c.ID,
		errdefs.ErrFailedPrecondition)
}

// dump writes a container's processes, changed files, volumes and description into a directory.
func (s *Service) dump(ctx context.Context, c *state.Container, dir string) error {
	d, err := describeAll(c)
	if err != nil {
		return err
	}
	if err := s.opts.Engine.CreateCheckpoint(ctx, c.ID, dir, dump.Processes); err != nil {
		return err
	}
	changes, err := s.opts.Engine.ListChanges(ctx, c.ID)
	if err != nil {
		return err
	}
	mounts, err := s.mountPoints(c)
	if err != nil {
		return err
	}
	var changed []string
	for _, change := range changes {
		switch {
		case isWithin(mounts, change.Path):
		case change.Kind == container.ChangeDelete:
			d.Deleted = append(d.Deleted, change.Path)
		default:
			changed = append(changed, change.Path)
		}
	}
	if err := s.saveFiles(ctx, c.Status.PID, changed, filepath.Join(dir, dump.Files)); err != nil {
		return fmt.Errorf("reading the files of container %s: %w", c.ID, err)
	}
	if err := s.saveVolumes(ctx, c.ID, dir, mounts); err != nil {
		return err
	}
	return d.Write(dir)
}

// mountPoints returns the paths of a running container's mounts, as requested and as the kernel has them. The two
// differ if a path contains a link, such as /var/run. The engine lists mount points among the changes. If a checkpoint
// had them, a restore would write into the mounts.
func (s *Service) mountPoints(c *state.Container) ([]string, error) {
	targets := append([]string{"/etc/resolv.conf", "/etc/hosts", "/etc/hostname", "/proc", "/sys", "/dev"},
		mountTargets(c.Meta.Config)...)
	file, err := os.Open(filepath.Join(s.proc, strconv.Itoa(c.Status.PID), "mountinfo"))
	if errors.Is(err, fs.ErrNotExist) {
		return targets, nil // its process has ended, and saveFiles returns an error
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	mounts, err := mountinfo.GetMountsFromReader(file, nil)
	for _, m := range mounts {
		if m.Mountpoint != "/" {
			targets = append(targets, m.Mountpoint)
		}
	}
	return targets, err
}

// mountTargets returns the container paths of CRI's mounts, sorted and without duplicates.
func mountTargets(config *runtimeapi.ContainerConfig) []string {
	var targets []string
	for _, mount := range config.GetMounts() {
		targets = append(targets, path.Clean("/"+mount.GetContainerPath()))
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}

// isWithin reports whether a path is one of the directories or in one of them.
func isWithin(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
}

// saveFiles archives files of a running container, as it sees them.
func (s *Service) saveFiles(ctx context.Context, pid int, names []string, archive string) error {
	root, err := os.OpenRoot(filepath.Join(s.proc, strconv.Itoa(pid), "root"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its process has ended meanwhile: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	return dump.Save(ctx, root, names, archive)
}

// statusOf returns the container's CRI status for a checkpoint.
func statusOf(c *state.Container) *runtimeapi.ContainerStatus {
	config := c.Meta.Config
	return &runtimeapi.ContainerStatus{
		Id: c.ID, Metadata: config.GetMetadata(), State: c.Status.State(),
		CreatedAt: c.Meta.CreatedAt.UnixNano(), StartedAt: c.Status.StartedAt.UnixNano(),
		Image: config.GetImage(), ImageRef: c.Meta.ImageRef, ImageId: c.Meta.ImageID,
		Labels: config.GetLabels(), Annotations: config.GetAnnotations(), Mounts: config.GetMounts(),
		LogPath: c.Meta.LogPath, Resources: c.Status.Resources,
	}
}

// describeAll returns the description of a container in a checkpoint.
func describeAll(c *state.Container) (dump.Container, error) {
	spec, err := docker.RuntimeSpec(c.ID, c.Status.PID)
	if err != nil && !errdefs.IsNotFound(err) {
		return dump.Container{}, err
	}
	if err != nil {
		spec = []byte("{}") // a runtime without containerd's shim
	}
	status, err := json.Marshal(statusOf(c))
	if err != nil {
		return dump.Container{}, err
	}
	config, err := marshalConfig(c.Meta.Config)
	if err != nil {
		return dump.Container{}, err
	}
	name := imageName(c.Meta.Config.GetImage())
	return dump.Container{
		Config: dump.Config{
			ID: c.ID, Name: c.Meta.Name, Image: name, ImageName: name, ImageRef: c.Meta.ImageID,
			CreatedTime: c.Meta.CreatedAt, CheckpointedAt: time.Now(),
		},
		Spec: spec, Status: status, CRI: config,
	}, nil
}
