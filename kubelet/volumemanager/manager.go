package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// Options configure a Manager.
type Options struct {
	// RootDir is the kubelet's root. Volumes are in model.PodDirectory below it.
	RootDir string
	// Objects is required for pods with configMap and secret volumes.
	Objects volumekinds.Objects
	// Tokens is required for pods with service account tokens. Without Tokens, mounting such a token is an
	// errdefs.ErrNotImplemented.
	Tokens volumekinds.Tokens
	// ClaimsDir has an entry NAMESPACE/CLAIM for each claim: a directory, or a link to the claim's persistent volume.
	// Without ClaimsDir, claims are an errdefs.ErrNotImplemented.
	ClaimsDir string
	// Claims is required with ClaimsDir.
	Claims volumekinds.Claims
	// Measure is called after each attempt to make or update a volume in a directory of the pod. plugin is the name of
	// the kubelet's plugin, such as kubernetes.io/secret. Nil means none.
	Measure func(plugin string, began time.Time, err error)
	// Allocatable returns the node's allocatable resources. The downward API shows them in place of limits that a
	// container lacks. They also bound the volumes in memory. Nil means none.
	Allocatable func() v1.ResourceList
}

// Manager makes and removes the volumes of pods. Calls for different pods may run at the same time, calls for one pod
// must not.
type Manager struct {
	opts Options
}

// New makes a manager. It changes nothing yet.
func New(opts Options) *Manager {
	if opts.Allocatable == nil {
		opts.Allocatable = func() v1.ResourceList { return nil }
	}
	if opts.Measure == nil {
		opts.Measure = func(string, time.Time, error) {}
	}
	return &Manager{opts: opts}
}

// StaleError says that some volumes could not be updated, or that paths of the host are gone. All of the pod's own
// volumes exist. A started pod can go on.
type StaleError struct{ err error }

// Error has the names of the volumes and the reasons.
func (e *StaleError) Error() string { return e.err.Error() }

// Unwrap returns the joined errors.
func (e *StaleError) Unwrap() error { return e.err }

// Mount makes all volumes of the pod, and updates existing ones. The error joins the errors of all volumes, with their
// names. A missing config map or secret that is not optional is an errdefs.ErrNotFound. If a started pod can go on
// despite the errors, the error is a StaleError.
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

// mount makes or updates one volume. After an error, stale reports whether the volume still has its old content. A
// volume without a directory of the pod, such as a hostPath, counts as stale: running containers have it mounted.
func (m *Manager) mount(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (stale bool, err error) {
	kind, err := volumekinds.Of(&volume.VolumeSource)
	if err != nil {
		return false, err
	}
	path, err := m.path(pod, volume, kind)
	if err != nil {
		return false, err
	}
	if kind.Directory != "" {
		began := time.Now()
		defer func() { m.opts.Measure(kind.Plugin(), began, err) }()
	}
	if kind.Mount != nil {
		return kind.Directory == "", kind.Mount(host{&m.opts}, path, pod, &volume.VolumeSource)
	}
	in := volumekinds.Input{Pod: pod, Objects: m.opts.Objects, Tokens: m.opts.Tokens, Allocatable: m.opts.Allocatable()}
	files, err := kind.Files(ctx, in, &volume.VolumeSource)
	if err == nil {
		err = writeFiles(path, files, kind.InMemory, fsGroup(pod))
	}
	return filled(path), err
}

// writeFiles makes a directory of files that belong to a group, or brings an existing one up to date.
func writeFiles(path string, files volumekinds.Files, inMemory bool, group *int64) error {
	prepare := makeDirectory
	if inMemory {
		prepare = func(path string) error { return makeTmpfs(path, nil, 0) }
	}
	if err := prepare(path); err != nil {
		return err
	}
	return swap(path, files, func(directory string) error { return own(directory, group, readOnlyFiles) })
}

// Mounted is a volume for containers.
type Mounted struct {
	// Path is the volume's path on the host, empty for an image.
	Path string
	// Image is the image, nil for any other kind.
	Image *v1.ImageVolumeSource
	// ReadOnly says that containers must not write to the volume.
	ReadOnly bool
	// Managed says that the kubelet made the volume and may relabel it. A hostPath and a persistent volume are not
	// managed.
	Managed bool
}

// Find returns the pod's volume of that name. It does not check whether Mount has made it.
func (m *Manager) Find(pod *v1.Pod, name string) (Mounted, error) {
	volume, err := find(pod, name)
	if err != nil {
		return Mounted{}, err
	}
	kind, err := volumekinds.Of(&volume.VolumeSource)
	if err != nil {
		return Mounted{}, err
	}
	if volume.PersistentVolumeClaim != nil {
		return m.findClaim(pod, volume.PersistentVolumeClaim)
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

// path returns a volume's path on the host. It is empty for a claim, see findClaim, and for an image.
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

// podDirectory refuses UIDs that lead out of the kubelet's root: a manifest may have any UID.
func (m *Manager) podDirectory(uid types.UID) (string, error) {
	if err := element("metadata.uid", string(uid)); err != nil {
		return "", err
	}
	return model.PodDirectory(m.opts.RootDir, uid), nil
}

// element checks that name is the name of a file, not a path.
func element(field, name string) error {
	if name == "" || name == "." || name == ".." || filepath.Base(name) != name {
		return fmt.Errorf("%s: %q cannot be the name of a directory: %w", field, name, errdefs.ErrInvalidArgument)
	}
	return nil
}

// OnDisk returns the directories of the pod's volumes on disk, by the volumes' names. It leaves out volumes in memory,
// host paths, claims and images.
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

// Pods lists the pods that have a directory, to find leftovers.
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

// Unmount removes the pod's directory, with volumes, hosts file and termination messages, and drops its tokens. A
// missing directory is not an error, so the call may be repeated.
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

// UnmountAll unmounts all mounts below RootDir, so that removing RootDir removes no files of other directories. RootDir
// itself may be a mount of the user's, and stays.
func (m *Manager) UnmountAll() error {
	entries, err := os.ReadDir(m.opts.RootDir)
	errs := []error{err}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink == 0 { // removing a link does not touch its target
			errs = append(errs, unmountBelow(filepath.Join(m.opts.RootDir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}
