package wholedir

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	makingPrefix   = ".making-"
	removingPrefix = ".removing-"
)

// Open makes the root with mode 0700, and removes what a crash left in it. It returns the names of the whole
// directories.
func Open(root string) ([]string, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(root, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		if !IsMaking(name) && !IsRemoving(name) {
			names = append(names, name)
		} else if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// IsMaking reports whether a directory of the root is not whole yet.
func IsMaking(name string) bool { return strings.HasPrefix(name, makingPrefix) }

// IsRemoving reports whether a directory of the root is not whole any more.
func IsRemoving(name string) bool { return strings.HasPrefix(name, removingPrefix) }

// Make returns the path of a new, empty directory. Publish it, or remove it.
func Make(root string) (string, error) { return os.MkdirTemp(root, makingPrefix) }

// Publish writes the files of a directory from Make to the disk, and then gives the directory its name. The name must
// be free.
func Publish(making, name string) error {
	root := filepath.Dir(making)
	if err := sync(making); err != nil {
		return err
	}
	if err := os.Rename(making, filepath.Join(root, name)); err != nil {
		return err
	}
	return sync(root)
}

// TakeAway frees the name of a directory and returns the new path, which the caller removes. It fails with
// os.ErrNotExist if the directory does not exist. First it deletes the files that an earlier removal of the same name
// left.
func TakeAway(root, name string) (removing string, err error) {
	removing = filepath.Join(root, removingPrefix+name)
	if err := os.RemoveAll(removing); err != nil {
		return "", err
	}
	return removing, os.Rename(filepath.Join(root, name), removing)
}

// sync writes the cached data of a directory's filesystem to the disk. One call is faster than one for each file.
func sync(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: path, Err: err}
	}
	return nil
}
