package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// Options configure a Manager.
type Options struct {
	// RootDir is the kubelet's root; the volumes are in model.PodDirectory below it.
	RootDir string
	// Objects is required for pods with configMap and secret volumes.
	Objects volumekinds.Objects
	// Tokens is required for pods with service account tokens; without it they are an errdefs.ErrNotImplemented.
	Tokens volumekinds.Tokens
	// Allocatable is what pods can have of the node: the downward API shows it for limits that a container does not
	// have. Nil means nothing.
	Allocatable func() v1.ResourceList
}

// Manager makes and removes the volumes of pods. It is safe for concurrent use by different pods; calls for one pod
// come one after the other.
type Manager struct {
	opts Options
}

// New makes a manager; it touches nothing yet.
func New(opts Options) *Manager {
	if opts.Allocatable == nil {
		opts.Allocatable = func() v1.ResourceList { return nil }
	}
	return &Manager{opts: opts}
}

// StaleError says that volumes could not be brought up to date: all are there, and these hold what they held before. A
// pod that has started with that can go on with it.
type StaleError struct{ err error }

// Error names the volumes and the reasons.
func (e *StaleError) Error() string { return e.err.Error() }

// Unwrap is for errors.Is.
func (e *StaleError) Unwrap() error { return e.err }

// Mount makes every volume of the pod, and brings the content of those that exist up to date: config maps, secrets, the
// pod's fields, and tokens that near their end. It may be repeated, and has to be for that. The error joins those of
// all volumes, each with the volume's name; a config map or secret that must exist and does not is an
// errdefs.ErrNotFound. When all volumes can be used nevertheless, it is a StaleError.
func (m *Manager) Mount(ctx context.Context, pod *v1.Pod) error {
	if _, err := m.podDirectory(pod.UID); err != nil {
		return err
	}
	var errs []error
	allStale := true
	for i := range pod.Spec.Volumes {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if stale, err := m.mount(ctx, pod, &pod.Spec.Volumes[i]); err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", pod.Spec.Volumes[i].Name, err))
			allStale = allStale && stale
		}
	}
	err := errors.Join(errs...)
	if err != nil && allStale {
		return &StaleError{err}
	}
	return err
}

// mount makes one volume. Stale says of an error that the volume has older content.
func (m *Manager) mount(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (stale bool, err error) {
	kind, err := volumekinds.Of(&volume.VolumeSource)
	if err != nil {
		return false, err
	}
	path, err := m.path(pod, volume, kind)
	if err != nil {
		return false, err
	}
	if mount, ok := mounts[kind.Field]; ok {
		return false, mount(path, pod, &volume.VolumeSource)
	}
	in := volumekinds.Input{Pod: pod, Objects: m.opts.Objects, Tokens: m.opts.Tokens, Allocatable: m.opts.Allocatable()}
	files, err := kind.Files(ctx, in, &volume.VolumeSource)
	if err == nil {
		err = writeFiles(path, files, kind.InMemory, fsGroup(pod))
	}
	return filled(path), err
}

// mounts make the volumes that are no directory of files, by their kind's field; TestEveryKindIsMounted compares them
// with the table.
var mounts = map[string]func(path string, pod *v1.Pod, source *v1.VolumeSource) error{
	"emptyDir": func(path string, pod *v1.Pod, source *v1.VolumeSource) error {
		return mountEmptyDir(path, emptyDirOptions{source: source.EmptyDir, group: fsGroup(pod), limit: memoryLimit(pod)})
	},
	"hostPath": func(_ string, _ *v1.Pod, source *v1.VolumeSource) error { return checkHostPath(source.HostPath) },
	"image":    func(string, *v1.Pod, *v1.VolumeSource) error { return nil }, // the runtime mounts it into each container
}

// writeFiles makes a directory of files that belong to a group, or brings the one that is there up to date.
func writeFiles(path string, files volumekinds.Files, inMemory bool, group *int64) error {
	if err := makeFilesDirectory(path, inMemory); err != nil {
		return err
	}
	return swap(path, files, func(directory string) error { return own(directory, group, readOnlyFiles) })
}

// makeFilesDirectory makes the directory of a volume of files, on disk or in memory. It may be repeated.
func makeFilesDirectory(path string, inMemory bool) error {
	if !inMemory {
		return makeDirectory(path)
	}
	mounted, err := isMountPoint(path)
	if err != nil || mounted {
		return err
	}
	if err := makeDirectory(path); err != nil {
		return err
	}
	return mountTmpfs(path, 0)
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// Mounted is a volume that containers can mount.
type Mounted struct {
	// Path is where it is; empty for an image, whose files the runtime has.
	Path string
	// Image says which image the volume is, nil for any other volume.
	Image *v1.ImageVolumeSource
	// ReadOnly says that containers may not write to it: its content is the kubelet's.
	ReadOnly bool
	// Managed says that it was made for this pod, so that it may be relabelled for it; a hostPath is not.
	Managed bool
}

// Find returns the pod's volume of that name; whether Mount has made it is not looked at.
func (m *Manager) Find(pod *v1.Pod, name string) (Mounted, error) {
	volume, err := find(pod, name)
	if err != nil {
		return Mounted{}, err
	}
	kind, err := volumekinds.Of(&volume.VolumeSource)
	if err != nil {
		return Mounted{}, err
	}
	path, err := m.path(pod, volume, kind)
	return Mounted{Path: path, Image: volume.Image, ReadOnly: !kind.Writable, Managed: volume.HostPath == nil}, err
}

func find(pod *v1.Pod, name string) (*v1.Volume, error) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i], nil
		}
	}
	return nil, fmt.Errorf("the pod has no volume %q: %w", name, errdefs.ErrInvalidArgument)
}

// path is where a volume is on the host, empty for one that is not there.
func (m *Manager) path(pod *v1.Pod, volume *v1.Volume, kind volumekinds.Kind) (string, error) {
	if volume.HostPath != nil {
		return volume.HostPath.Path, nil
	}
	if kind.Directory == "" {
		return "", nil
	}
	if err := element("volume name", volume.Name); err != nil {
		return "", err
	}
	directory, err := m.podDirectory(pod.UID)
	return filepath.Join(directory, "volumes", "kubernetes.io~"+kind.Directory, volume.Name), err
}

// podDirectory refuses UIDs that would lead out of the kubelet's root: a manifest may give any.
func (m *Manager) podDirectory(uid types.UID) (string, error) {
	if err := element("metadata.uid", string(uid)); err != nil {
		return "", err
	}
	return model.PodDirectory(m.opts.RootDir, uid), nil
}

// element checks that name is a file's name and no path.
func element(field, name string) error {
	if name == "" || name == "." || name == ".." || filepath.Base(name) != name {
		return fmt.Errorf("%s: %q cannot be the name of a directory: %w", field, name, errdefs.ErrInvalidArgument)
	}
	return nil
}

// OnDisk are the directories of the pod's volumes that take up disk of their own, by the volumes' names: not those in
// memory, nor what the host or an image has.
func (m *Manager) OnDisk(pod *v1.Pod) map[string]string {
	found := map[string]string{}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		kind, err := volumekinds.Of(&volume.VolumeSource)
		inMemory := kind.InMemory || volume.EmptyDir != nil && volume.EmptyDir.Medium == v1.StorageMediumMemory
		if err != nil || kind.Directory == "" || inMemory {
			continue
		}
		if path, err := m.path(pod, volume, kind); err == nil {
			found[volume.Name] = path
		}
	}
	return found
}

// Pods lists the pods that have something on disk, so that the leftovers of an earlier run can be removed.
func (m *Manager) Pods() ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Dir(model.PodDirectory(m.opts.RootDir, "x")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var uids []types.UID
	for _, entry := range entries {
		if entry.IsDir() {
			uids = append(uids, types.UID(entry.Name()))
		}
	}
	return uids, nil
}

// Unmount removes the pod's whole directory: volumes, hosts file, termination messages; its tokens are forgotten. A pod
// without one is no error. It may be repeated.
func (m *Manager) Unmount(_ context.Context, uid types.UID) error {
	directory, err := m.podDirectory(uid)
	if err != nil {
		return err
	}
	if err := unmountBelow(directory); err != nil {
		return fmt.Errorf("unmount the volumes of pod %s: %w", uid, err)
	}
	if err := os.RemoveAll(directory); err != nil {
		return fmt.Errorf("remove the volumes of pod %s: %w", uid, err)
	}
	if m.opts.Tokens != nil {
		m.opts.Tokens.Forget(uid)
	}
	return nil
}

// UnmountAll unmounts all that is mounted below RootDir, so that it can be removed: what is mounted elsewhere, and into
// RootDir, loses nothing then.
func (m *Manager) UnmountAll() error { return unmountBelow(m.opts.RootDir) }
