package podspec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// mounts returns the container's volume mounts, its hosts file and its termination message file.
func (g *Generator) mounts(in ContainerInput, env *environment) ([]*runtimeapi.Mount, error) {
	var mounts []*runtimeapi.Mount
	for i := range in.Container.VolumeMounts {
		mount, err := g.volumeMount(in, i, env)
		if err != nil {
			return nil, fmt.Errorf("volumeMounts[%d] (%s): %w", i, in.Container.VolumeMounts[i].Name, err)
		}
		mounts = append(mounts, mount)
	}
	hosts, err := g.hostsMount(in)
	if err != nil {
		return nil, err
	}
	if hosts != nil {
		mounts = append(mounts, hosts)
	}
	message, err := g.terminationMount(in)
	if err != nil {
		return nil, fmt.Errorf("terminationMessagePath: %w", err)
	}
	if message != nil {
		mounts = append(mounts, message)
	}
	return mounts, nil
}

func (g *Generator) volumeMount(in ContainerInput, index int, env *environment) (*runtimeapi.Mount, error) {
	wanted := &in.Container.VolumeMounts[index]
	found, err := g.opts.Volumes.Find(in.Pod, wanted.Name)
	if err != nil {
		return nil, err
	}
	path := found.Path
	part, err := subPath(wanted, env)
	if err != nil {
		return nil, err
	}
	if found.Image != nil {
		return imageMount(in, wanted, part)
	}
	if part != "" {
		path, err = g.opts.Volumes.SubPath(volumemanager.SubPathRequest{
			Pod: in.Pod, Container: in.Container.Name, Index: index, Volume: wanted.Name, Path: part,
		})
		if err != nil {
			return nil, err
		}
	}
	propagation, err := propagation(wanted.MountPropagation)
	if err != nil {
		return nil, err
	}
	mount := &runtimeapi.Mount{
		ContainerPath: target(wanted), HostPath: path, Readonly: wanted.ReadOnly || found.ReadOnly,
		SelinuxRelabel: found.Managed && selinuxEnabled(), Propagation: propagation,
		MountOptions: wanted.BindMountOptions,
	}
	mount.RecursiveReadOnly, err = g.recursiveReadOnly(wanted)
	return mount, err
}

// imageMount returns the mount of an image or a part of it. The mount is always recursively read-only: an image cannot
// be written to, and nothing can be mounted below it.
func imageMount(in ContainerInput, wanted *v1.VolumeMount, part string) (*runtimeapi.Mount, error) {
	image := in.ImageVolumes[wanted.Name]
	if image == nil {
		return nil, fmt.Errorf("the volume's image is not present: %w", errdefs.ErrFailedPrecondition)
	}
	if part != "" && !filepath.IsLocal(part) {
		return nil, fmt.Errorf("subPath: %q does not stay in the image: %w", part, errdefs.ErrInvalidArgument)
	}
	if mode := wanted.MountPropagation; mode != nil && *mode != v1.MountPropagationNone {
		return nil, fmt.Errorf(
			"mountPropagation: nothing is mounted below an image, so only %s makes sense, not %q: %w",
			v1.MountPropagationNone, *mode, errdefs.ErrInvalidArgument)
	}
	return &runtimeapi.Mount{
		ContainerPath: target(wanted), Image: image, ImageSubPath: part, Readonly: true,
		SelinuxRelabel: selinuxEnabled(),
		MountOptions:   wanted.BindMountOptions,
	}, nil
}

// target returns the path in the container.
func target(mount *v1.VolumeMount) string {
	if filepath.IsAbs(mount.MountPath) {
		return mount.MountPath
	}
	return "/" + mount.MountPath
}

// subPath returns the part of the volume to mount, or "" for all of it.
func subPath(mount *v1.VolumeMount, env *environment) (string, error) {
	if mount.SubPathExpr == "" {
		return mount.SubPath, nil
	}
	var missing string
	path := expand(mount.SubPathExpr, func(name string) (string, bool) {
		value, ok := env.lookup(name)
		if !ok {
			missing = name
		}
		return value, ok
	})
	if missing != "" {
		return "", fmt.Errorf("subPathExpr: the container has no variable %q: %w", missing, errdefs.ErrInvalidArgument)
	}
	return path, nil
}

func propagation(mode *v1.MountPropagationMode) (runtimeapi.MountPropagation, error) {
	if mode == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *mode {
	case v1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	default:
		return 0, fmt.Errorf("mountPropagation: %q is not a mode: %w", *mode, errdefs.ErrInvalidArgument)
	}
}

// recursiveReadOnly reports whether mounts below the volume become read-only, too.
func (g *Generator) recursiveReadOnly(mount *v1.VolumeMount) (bool, error) {
	switch ptr.Deref(mount.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled) {
	case v1.RecursiveReadOnlyDisabled:
		return false, nil
	case v1.RecursiveReadOnlyIfPossible:
		return g.opts.RecursiveReadOnly, nil
	case v1.RecursiveReadOnlyEnabled:
		if !g.opts.RecursiveReadOnly {
			return false, fmt.Errorf(
				"recursiveReadOnly: the container runtime does not support it; use IfPossible: %w",
				errdefs.ErrNotImplemented)
		}
		return true, nil
	default:
		return false, fmt.Errorf("recursiveReadOnly: %q is not a mode: %w", *mount.RecursiveReadOnly,
			errdefs.ErrInvalidArgument)
	}
}

// selinuxEnabled reports whether the host has SELinux enabled: its filesystem is mounted only then.
func selinuxEnabled() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}

// keptMessages is how many earlier attempts keep the files of their termination messages. Containers that ended are
// removed once a minute, and a container that crashes has hardly more attempts in that time.
const keptMessages = 5

// terminationMount creates a file that every user may write to, and mounts it at the termination message path. Each
// start has a new file, so an old message is never taken for a new one. The file's name begins with the attempt.
func (g *Generator) terminationMount(in ContainerInput) (*runtimeapi.Mount, error) {
	if in.Container.TerminationMessagePath == "" {
		return nil, nil
	}
	dir := filepath.Join(model.PodDirectory(g.opts.RootDir, in.Pod.UID), "containers", in.Container.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	if err := removeMessages(dir, in.Attempt); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, strconv.FormatUint(uint64(in.Attempt), 10)+".")
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	if err := os.Chmod(file.Name(), 0o666); err != nil {
		return nil, err
	}
	return &runtimeapi.Mount{
		ContainerPath: in.Container.TerminationMessagePath, HostPath: file.Name(), SelinuxRelabel: selinuxEnabled(),
	}, nil
}

// removeMessages removes the files of old attempts, and of failed tries of this attempt. Otherwise a container that
// crashes again and again would use up the inodes of the file system.
func removeMessages(dir string, attempt uint32) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		text, _, found := strings.Cut(entry.Name(), ".")
		of, err := strconv.ParseUint(text, 10, 32)
		if old := of == uint64(attempt) || of+keptMessages < uint64(attempt); found && err == nil && old {
			errs = append(errs, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}
