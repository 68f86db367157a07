package volumekinds

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
)

// hostPath is a path of the host. The kubelet never relabels it, because it belongs to the host.
var hostPath = Kind{
	Field:       "hostPath",
	Honoured:    []string{"path", "type"},
	Writable:    true,
	setDefaults: func(source *v1.VolumeSource) { fillPointer(&source.HostPath.Type, v1.HostPathUnset) },
	validate: func(_ *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
		errs := fieldcheck.Absolute(at.Child("path"), source.HostPath.Path)
		return append(errs, fieldcheck.OneOf(at.Child("type"), *source.HostPath.Type, v1.HostPathUnset,
			v1.HostPathDirectoryOrCreate,
			v1.HostPathDirectory, v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev,
			v1.HostPathBlockDev)...)
	},
	Mount: func(_ Host, _ string, _ *v1.Pod, source *v1.VolumeSource) error {
		return CheckHostPath(source.HostPath)
	},
	describe: func(source *v1.VolumeSource) string { return "the host's " + source.HostPath.Path },
}

// CheckHostPath checks that the path has the volume's type, and makes it for the types …OrCreate. It checks nothing
// without a type.
func CheckHostPath(source *v1.HostPathVolumeSource) error {
	want := ptr.Deref(source.Type, v1.HostPathUnset)
	switch want {
	case v1.HostPathUnset:
		return nil
	case v1.HostPathDirectoryOrCreate:
		if _, err := os.Stat(source.Path); errors.Is(err, fs.ErrNotExist) {
			return os.MkdirAll(source.Path, 0o755)
		}
		want = v1.HostPathDirectory
	case v1.HostPathFileOrCreate:
		if err := createFile(source.Path); err != nil {
			return err
		}
		want = v1.HostPathFile
	}
	return checkType(source.Path, want)
}

// createFile makes an empty file unless the path exists. Its directory must exist.
func createFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

func checkType(path string, want v1.HostPathType) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	mode, ok := info.Mode(), false
	switch want {
	case v1.HostPathDirectory:
		ok = mode.IsDir()
	case v1.HostPathFile:
		ok = mode.IsRegular()
	case v1.HostPathSocket:
		ok = mode&fs.ModeSocket != 0
	case v1.HostPathCharDev:
		ok = mode&fs.ModeCharDevice != 0
	case v1.HostPathBlockDev:
		ok = mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
	default:
		return fmt.Errorf("hostPath.type: %q is not a type: %w", want, errdefs.ErrInvalidArgument)
	}
	if !ok {
		return fmt.Errorf("hostPath type check failed: %s is not a %s: %w", path, want, errdefs.ErrFailedPrecondition)
	}
	return nil
}
