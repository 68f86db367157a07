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

// A linked log is a symbolic link at the log path to the engine's own json-file, the way of dockershim: readers of
// Kubernetes know that format as well. It costs no CPU and no second copy, and has limits that docs/logs.md names.

// linkAttempts bounds how often a log that grows while it is copied is copied on before it is emptied all the same.
const linkAttempts = 100

// Link puts a link to the engine's log file, which need not exist yet, at the log path. A link that is there is
// replaced; anything else is ErrFailedPrecondition.
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
		return fmt.Errorf("the log path %s is taken by something that is not a link, remove it: %w", logPath, errdefs.ErrFailedPrecondition)
	}
	return putLink(enginePath, logPath)
}

// putLink puts a link to the engine's log file in the place of whatever is at a path.
func putLink(enginePath, path string) error {
	defer step.At("log link: put")()
	// Hidden, so that nobody takes it for a rotated log.
	dir, base := filepath.Split(path)
	fresh := filepath.Join(dir, "."+base)
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

// IsLinked reports whether the log is a link to the engine's file, at its path
// or where the kubelet has renamed it, or was one until it was rotated.
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

// ReopenLink ends a linked log that the kubelet has renamed: the renamed link becomes a copy of the engine's file, the
// engine's file is emptied, and a new link is put at the log path. What the engine writes between the end of the copy
// and the emptying is lost. A log that was not renamed stays as it is. On an error there is no new link. One that was
// cut short is put right first, see RestoreLink.
func ReopenLink(ctx context.Context, enginePath, logPath string) error {
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
		if err := moveOut(ctx, enginePath, links[0], copyPath(logPath)); err != nil {
			return fmt.Errorf("copying the engine's log to %s: %w", links[0], err)
		}
	}
	return Link(enginePath, logPath)
}

// linksTo lists the links to the engine's file at the log path and at names that begin with it.
func linksTo(enginePath, logPath string) ([]string, error) {
	dir, base := filepath.Split(logPath)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
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

// moveOut replaces the file at path by a copy of the engine's file, which is made at another path, and empties that.
func moveOut(ctx context.Context, enginePath, path, copied string) error {
	defer step.At("log link: copy and empty")()
	source, err := os.OpenFile(enginePath, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer source.Close() // nothing is written to it
	// A new file in any case: what somebody else has put there may be a link.
	target, err := os.OpenFile(copied, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer target.Close() // closed for good below
	err = copyAll(ctx, target, source)
	if err == nil {
		err = errors.Join(target.Sync(), target.Close(), os.Rename(target.Name(), path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(target.Name()))
	}
	return source.Truncate(0)
}

// copyAll copies until there is no more, or the source has grown again and again meanwhile.
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
