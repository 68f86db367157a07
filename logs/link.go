package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/step"
)

// A linked log is a symbolic link at the log path to the engine's json-file, as with dockershim. Readers of Kubernetes
// logs accept that format, too. It costs no CPU and no second copy. docs/logs.md has its limits.

// linkAttempts is the largest number of copy passes over a log that keeps growing. After the last one, the log is
// emptied in any case.
const linkAttempts = 100

// Link puts a link to the engine's log file at the log path. The file need not exist yet. It replaces a link, and fails
// with ErrFailedPrecondition for any other file.
func Link(enginePath, logPath string) error {
	if err := os.MkdirAll(filepath.Dir(logPath), dirMode); err != nil {
		return fmt.Errorf("making the log directory: %w", err)
	}
	info, err := os.Lstat(logPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("looking at the log path: %w", err)
	case info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("the log path %s is taken by something that is not a link, remove it: %w", logPath,
			errdefs.ErrFailedPrecondition)
	}
	return putLink(enginePath, logPath)
}

// putLink replaces the file at a path with a link to the engine's log file.
func putLink(enginePath, path string) error {
	defer step.At("log link: put")()
	// Hidden, so that collectors do not take it for a rotated log.
	fresh := hidden(path, "")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the leftover of an unfinished link: %w", err)
	}
	if err := os.Symlink(enginePath, fresh); err != nil {
		return fmt.Errorf("linking the log: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(fmt.Errorf("linking the log: %w", err), os.Remove(fresh))
	}
	return nil
}

// IsLinked reports whether the log is a link to the engine's file, at its path or under the kubelet's name for a
// rotated log. It is true for a log that was a link until its rotation, too.
func IsLinked(enginePath, logPath string) (bool, error) {
	links, err := linksTo(enginePath, logPath)
	if err != nil || len(links) > 0 {
		return len(links) > 0, err
	}
	candidates, err := rotatedLogs(logPath)
	for _, path := range append(candidates, logPath) {
		if copied, _, err := comparedWith(enginePath, path); err != nil || copied {
			return copied, err
		}
	}
	return false, err
}

// ReopenLink ends a linked log that the kubelet has renamed. The renamed link becomes a copy of the engine's file, the
// engine's file is emptied, and the log path gets a new link. Output between the end of the copy and the emptying is
// lost. A log that was not renamed stays as it is. On an error there is no new link. It first repairs an interrupted
// call, see RestoreLink. A log that the engine, which is the process with this id, rotates itself fails with
// ErrFailedPrecondition.
func ReopenLink(ctx context.Context, enginePath, logPath string, engine int) error {
	if err := RestoreLink(enginePath, logPath); err != nil {
		return err
	}
	links, err := linksTo(enginePath, logPath)
	if err != nil {
		return err
	}
	for _, link := range links {
		if link == logPath {
			return nil
		}
	}
	if len(links) > 0 {
		if err := checkAppended(engine, enginePath); err != nil {
			return err
		}
		if err := moveOut(ctx, enginePath, links[0], hidden(logPath, copySuffix)); err != nil {
			return fmt.Errorf("copying the engine's log to %s: %w", links[0], err)
		}
	}
	return Link(enginePath, logPath)
}

// linksTo lists the links to the engine's file at the log path and at names that begin with it.
func linksTo(enginePath, logPath string) ([]string, error) {
	dir, base := filepath.Split(logPath)
	entries, err := os.ReadDir(dir)
	if ignoreNotExist(err) != nil {
		return nil, fmt.Errorf("reading the log directory: %w", err)
	}
	var links []string
	for _, entry := range entries {
		name := entry.Name()
		if entry.Type()&fs.ModeSymlink == 0 || name != base && !strings.HasPrefix(name, base+".") {
			continue
		}
		path := filepath.Join(dir, name)
		if target, err := os.Readlink(path); err == nil && target == enginePath {
			links = append(links, path)
		}
	}
	return links, nil
}

// moveOut replaces the file at path with a copy of the engine's file, which it makes at another path. Then it empties
// the engine's file.
func moveOut(ctx context.Context, enginePath, path, copied string) error {
	defer step.At("log link: copy and empty")()
	source, err := os.OpenFile(enginePath, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer source.Close() // its only change, Truncate, returns its own error
	// Always a new file: an existing one may be a foreign link.
	target, err := os.OpenFile(copied, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer target.Close() // closed for good below
	err = copyAll(ctx, target, source)
	if err == nil {
		err = errors.Join(target.Sync(), target.Close())
	}
	if err == nil { // some file systems report a failed write only to Sync or Close
		err = os.Rename(target.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(target.Name()))
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
