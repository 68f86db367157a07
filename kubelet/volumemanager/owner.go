package volumemanager

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The permissions of a volume's group.
const (
	readOnlyFiles fs.FileMode = 0o440
	writableFiles fs.FileMode = 0o660
	// enterable lets a group enter directories. With setgid, new files in them belong to the group.
	enterable = 0o110 | fs.ModeSetgid
)

// own gives everything at and below path to the pod's fsGroup. Without a group it changes nothing.
func own(path string, group *int64, files fs.FileMode) error {
	if group == nil {
		return nil
	}
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return ownOne(name, info, int(*group), files)
	})
}

func ownOne(name string, info fs.FileInfo, group int, files fs.FileMode) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &fs.PathError{Op: "stat", Path: name, Err: errors.ErrUnsupported}
	}
	if err := os.Lchown(name, int(stat.Uid), group); err != nil {
		return err
	}
	mode := info.Mode()
	if mode&fs.ModeSymlink != 0 {
		return nil // a link has no mode of its own
	}
	if mode.IsDir() {
		files |= enterable
	}
	return os.Chmod(name, mode|files)
}
