package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/step"
)

// A linked log is a symbolic link at the log path to the engine's json-file, as with dockershim. Readers of Kubernetes
// logs accept the json-file format, too. A linked log costs no CPU and no second copy. docs/logs.md describes the
// limits of linked logs.
//
// root is the pod's log directory, as for logs in the CRI format. No link below root may lead out of root, see
// MakeDirectory. Only the engine writes to its own directories, so paths to its files need no such check.

// linkAttempts is the largest number of copy passes over a log that keeps growing. After the last one, the log is
// emptied in any case.
const linkAttempts = 100

// Link puts a link to the engine's log file at the log path. The engine's file need not exist yet. Link replaces an
// existing link at the log path, and fails with ErrFailedPrecondition for any other file there.
func Link(enginePath, root, logPath string) error {
	made, err := openDirectory(root, filepath.Dir(logPath))
	if err != nil {
		return err
	}
	made.Close() // only made
	top, name, err := openRoot(root, logPath)
	if err != nil {
		return err
	}
	defer top.Close() // only names are changed
	info, err := top.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("looking at the log path: %w", err)
	case info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("the log path %s is taken by something that is not a link, remove it: %w", logPath,
			errdefs.ErrFailedPrecondition)
	}
	return putLink(top, enginePath, name)
}

// putLink replaces the file of that name with a link to the engine's log file.
func putLink(top *os.Root, enginePath, name string) error {
	defer step.At("log link: put")()
	// Hidden, so that collectors do not take it for a rotated log.
	fresh := hidden(name, "")
	if err := top.Remove(fresh); ignoreNotExist(err) != nil {
		return fmt.Errorf("removing the leftover of an unfinished link in %s: %w", top.Name(), err)
	}
	if err := top.Symlink(enginePath, fresh); err != nil {
		return fmt.Errorf("linking the log in %s: %w", top.Name(), err)
	}
	if err := top.Rename(fresh, name); err != nil {
		return errors.Join(fmt.Errorf("linking the log in %s: %w", top.Name(), err), top.Remove(fresh))
	}
	return nil
}

// IsLinked reports whether the log is a link to the engine's file, at its path or under the kubelet's name for a
// rotated log. It is also true if a copy that ReopenLink made in place of a link is at the log's path or among the
// rotated logs.
func IsLinked(enginePath, root, logPath string) (bool, error) {
	top, name, err := openRoot(root, logPath)
	if err != nil {
		return false, ignoreNotExist(err)
	}
	defer top.Close() // only read
	links, rotated, err := listLog(top, enginePath, name)
	if err != nil || len(links) > 0 {
		return len(links) > 0, err
	}
	for _, candidate := range append(rotated, name) {
		if copied, _, err := comparedWith(top, enginePath, candidate); err != nil || copied {
			return copied, err
		}
	}
	return false, nil
}

// ReopenLink ends a linked log that the kubelet has renamed. The renamed link becomes a copy of the engine's file, the
// engine's file is emptied, and the log path gets a new link. Output between the end of the copy and the emptying is
// lost. A log that was not renamed stays as it is. On an error there is no new link. ReopenLink first repairs an
// interrupted call, see RestoreLink. engine is the engine's process id. If that process rotates the log itself, or does
// not write it, ReopenLink fails with ErrFailedPrecondition.
func ReopenLink(ctx context.Context, enginePath, root, logPath string, engine int) error {
	if err := RestoreLink(enginePath, root, logPath); err != nil {
		return err
	}
	renamed, err := endRenamed(ctx, enginePath, root, logPath, engine)
	if err != nil || !renamed {
		return err
	}
	return Link(enginePath, root, logPath)
}

// endRenamed replaces a renamed link with a copy of the engine's file, and empties the engine's file. It returns false
// if the link is still at the log's path. Without any link, it returns true.
func endRenamed(ctx context.Context, enginePath, root, logPath string, engine int) (renamed bool, err error) {
	top, name, err := openRoot(root, logPath)
	if err != nil {
		return true, ignoreNotExist(err)
	}
	defer top.Close() // only names are changed
	links, _, err := listLog(top, enginePath, name)
	if err != nil || slices.Contains(links, name) {
		return false, err
	}
	if len(links) == 0 {
		return true, nil
	}
	if err := checkAppended(engine, enginePath); err != nil {
		return false, err
	}
	if err := moveOut(ctx, top, enginePath, links[0], hidden(name, copySuffix)); err != nil {
		return false, fmt.Errorf("copying the engine's log to %s: %w", filepath.Join(top.Name(), links[0]), err)
	}
	return true, nil
}

// listLog lists the links to the engine's file under the log's name and names that begin with it. rotated are the plain
// files among the rotated logs.
func listLog(top *os.Root, enginePath, logName string) (links, rotated []string, err error) {
	dir, base := filepath.Dir(logName), filepath.Base(logName)
	entries, err := fs.ReadDir(top.FS(), dir) // sorted by name
	if ignoreNotExist(err) != nil {
		return nil, nil, fmt.Errorf("reading the log directory: %w", err)
	}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink == 0 || entry.Name() != base && !strings.HasPrefix(entry.Name(), base+".") {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		if target, err := top.Readlink(name); err == nil && target == enginePath {
			links = append(links, name)
		}
	}
	return links, rotatedIn(entries, dir, base), nil
}

// moveOut copies the engine's file to a hidden name, and renames the copy over the file of the given name. Then it
// empties the engine's file.
func moveOut(ctx context.Context, top *os.Root, enginePath, name, copied string) error {
	defer step.At("log link: copy and empty")()
	source, err := os.OpenFile(enginePath, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer source.Close() // its only change, Truncate, returns its own error
	// Always a new file: an existing one may be a foreign link.
	target, err := top.OpenFile(copied, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer target.Close() // on an error; success closes it below
	err = copyAll(ctx, target, source)
	if err == nil {
		err = errors.Join(target.Sync(), target.Close())
	}
	if err == nil { // some file systems report a failed write only to Sync or Close
		err = top.Rename(copied, name)
	}
	if err != nil {
		return errors.Join(err, top.Remove(copied))
	}
	return source.Truncate(0)
}

// copyAll copies until a pass finds nothing new in the source, for at most linkAttempts passes.
func copyAll(ctx context.Context, target, source *os.File) error {
	for range linkAttempts {
		n, err := io.Copy(target, source)
		if err != nil || n == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
