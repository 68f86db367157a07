package podlogs

import (
	"context"
	"path/filepath"
	"time"

	"github.com/containerd/log"
	"github.com/fsnotify/fsnotify"
)

const (
	// checkPeriod is how often a follower checks whether the container runs, and reads the file without an event.
	checkPeriod = time.Second
	// pollPeriod is how often a follower reads the file without inotify: the kernel has no instance left
	// (fs.inotify.max_user_instances), or a directory cannot be watched.
	pollPeriod = 100 * time.Millisecond
)

// changes waits for changes of a log file.
type changes struct {
	// watcher is nil without inotify.
	watcher *fsnotify.Watcher
	check   *time.Ticker
	poll    *time.Ticker
}

// watch watches the directory of the file and, if it is a link, the directory of its target.
func watch(ctx context.Context, path string) *changes {
	c := &changes{check: time.NewTicker(checkPeriod), poll: time.NewTicker(pollPeriod)}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.G(ctx).WithError(err).WithField("path", path).Debug("polling the log, no inotify instance is left")
		return c
	}
	c.watcher = watcher
	c.poll.Stop()
	c.add(ctx, filepath.Dir(path))
	c.addTarget(ctx, path)
	return c
}

// addTarget watches the directory of the target, too, if the path is a link. The target may be new.
func (c *changes) addTarget(ctx context.Context, path string) {
	if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != filepath.Dir(path) {
		c.add(ctx, filepath.Dir(target))
	}
}

// add watches a directory. If that fails, the log is polled.
func (c *changes) add(ctx context.Context, directory string) {
	if c.watcher == nil {
		return
	}
	if err := c.watcher.Add(directory); err != nil {
		log.G(ctx).WithError(err).WithField("directory", directory).
			Debug("polling the log, its directory cannot be watched")
		_ = c.watcher.Close() // nothing was written, so its error does not matter
		c.watcher = nil
		c.poll.Reset(pollPeriod)
	}
}

func (c *changes) close() {
	c.check.Stop()
	c.poll.Stop()
	if c.watcher != nil {
		_ = c.watcher.Close() // the error does not matter, because nothing was written
	}
}

// wait returns when the file may have changed. Check says that it is time to check whether the container runs.
func (c *changes) wait(ctx context.Context) (check bool, err error) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	if c.watcher != nil {
		events, errs = c.watcher.Events, c.watcher.Errors
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-events:
		return false, nil
	case <-errs: // events were lost
		return false, nil
	case <-c.poll.C:
		return false, nil
	case <-c.check.C:
		return true, nil
	}
}
