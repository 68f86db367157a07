package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
)

// checkHostPath checks that the path is what the volume's type says, and makes it for the types …OrCreate. No type, no
// check.
func checkHostPath(source *v1.HostPathVolumeSource) error {
	want := v1.HostPathUnset
	if source.Type != nil {
		want = *source.Type
	}
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

// createFile makes an empty file where nothing is; its directory must exist.
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
		return fmt.Errorf("hostPath.type: %q is no type: %w", want, errdefs.ErrInvalidArgument)
	}
	if !ok {
		return fmt.Errorf("hostPath type check failed: %s is not a %s: %w", path, want, errdefs.ErrFailedPrecondition)
	}
	return nil
}
