package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// maxLinks bounds the links in one path, like the kernel.
const maxLinks = 40

// part returns the real path of subPath in an image's files, or of all files if it is empty. It follows links as in a
// container of the image: an absolute link begins at the image's root, and none leads above it. The path stays valid
// because the files never change.
func part(files, subPath string) (string, error) {
	if subPath == "" {
		return files, nil
	}
	if !filepath.IsLocal(subPath) {
		return "", fmt.Errorf("%q does not stay in the image: %w", subPath, errdefs.ErrInvalidArgument)
	}
	todo, real, links := strings.Split(subPath, "/"), "/", 0
	for len(todo) > 0 {
		next := filepath.Join(real, todo[0]) // ".." of the root is the root
		todo = todo[1:]
		info, err := os.Lstat(filepath.Join(files, next))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return "", fmt.Errorf("the image has no %q: %w", subPath, errdefs.ErrNotFound)
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%q leads through too many links: %w", subPath, errdefs.ErrInvalidArgument)
		}
		target, err := os.Readlink(filepath.Join(files, next))
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return filepath.Join(files, real), nil
}
