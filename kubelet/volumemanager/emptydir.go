package volumemanager

import (
	"errors"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// everybody is the mode of an emptyDir: a container may run as any user.
const everybody = 0o777

type emptyDirOptions struct {
	// source is nil for a volume without any source.
	source *v1.EmptyDirVolumeSource
	// group is the pod's fsGroup.
	group *int64
	// limit is the pod's memory limit in bytes, 0 for none.
	limit int64
}

// mountEmptyDir makes an emptyDir that does not exist; what is in one that does belongs to the pod and is left alone.
func mountEmptyDir(path string, opts emptyDirOptions) error {
	source := opts.source
	if source == nil {
		source = &v1.EmptyDirVolumeSource{}
	}
	switch source.Medium {
	case v1.StorageMediumDefault:
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		return buildDirectory(path, opts.group)
	case v1.StorageMediumMemory:
		mounted, err := isMountPoint(path)
		if err != nil || mounted {
			return err
		}
		if err := makeDirectory(path); err != nil {
			return err
		}
		if err := mountTmpfs(path, tmpfsSize(source, opts.limit)); err != nil {
			return err
		}
		return own(path, opts.group, writableFiles)
	default:
		return fmt.Errorf("emptyDir.medium: %q is neither empty nor Memory: %w", source.Medium, errdefs.ErrNotImplemented)
	}
}

// buildDirectory makes the directory under another name first, so that one with the wrong owner or mode is never taken
// for a finished one.
func buildDirectory(path string, group *int64) error {
	building := path + "~building"
	if err := makeDirectory(building); err != nil {
		return err
	}
	if err := own(building, group, writableFiles); err != nil {
		return err
	}
	return os.Rename(building, path)
}

// makeDirectory makes the directory and gives it the mode for everybody, whatever the umask.
func makeDirectory(path string) error {
	if err := os.MkdirAll(path, everybody&^0o027); err != nil {
		return err
	}
	return os.Chmod(path, everybody)
}

// tmpfsSize is the smaller of the volume's size limit and the pod's memory limit, to which its pages count; 0 for neither.
func tmpfsSize(source *v1.EmptyDirVolumeSource, limit int64) int64 {
	size := limit
	if source.SizeLimit != nil && source.SizeLimit.Value() > 0 && (size == 0 || source.SizeLimit.Value() < size) {
		size = source.SizeLimit.Value()
	}
	return size
}

// mountTmpfs mounts a tmpfs that is not swapped out where the kernel knows how (6.4); size 0 leaves it at the kernel's
// default, half of the memory.
func mountTmpfs(path string, size int64) error {
	options := ""
	if size > 0 {
		options = fmt.Sprintf("size=%d,", size)
	}
	err := unix.Mount("tmpfs", path, "tmpfs", 0, options+"noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", path, "tmpfs", 0, options)
	}
	if err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", path, err)
	}
	return nil
}

// memoryLimit is the memory that all containers of the pod together may use, in bytes; 0 if one has no limit.
func memoryLimit(pod *v1.Pod) int64 {
	limits := model.PodResources(pod).Limits
	return limits.Memory().Value()
}
