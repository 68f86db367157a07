package logs

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/sirupsen/logrus"
)

const (
	// checkPeriod is how often a follower asks whether more can come, and looks at the file without notice.
	checkPeriod = time.Second
	// pollPeriod is how often it looks when the kernel has no notices left to give (fs.inotify.max_user_instances).
	pollPeriod = 100 * time.Millisecond
)

// changes tells when a log may have grown or been replaced.
type changes struct {
	// watcher is nil when there is none to be had.
	watcher *fsnotify.Watcher
	check   *time.Ticker
	poll    *time.Ticker
}

// watch begins to look at the file at path: at its folder, where others take its place, and at the folder of what it
// links to.
func watch(path string) *changes {
	c := &changes{check: time.NewTicker(checkPeriod), poll: time.NewTicker(pollPeriod)}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		logrus.WithError(err).Debug("A log is followed without notices")
		return c
	}
	folders := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != folders[0] {
		folders = append(folders, filepath.Dir(target))
	}
	for _, folder := range folders {
		if err := watcher.Add(folder); err != nil {
			logrus.WithError(err).WithField("folder", folder).Debug("A log is followed without notices")
			_ = watcher.Close() // nothing was learned from it
			return c
		}
	}
	c.watcher = watcher
	c.poll.Stop()
	return c
}

func (c *changes) close() {
	c.check.Stop()
	c.poll.Stop()
	if c.watcher != nil {
		_ = c.watcher.Close() // nothing was written
	}
}

// wait returns when something may have changed; check says that it is time to ask whether anything still can.
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
	case <-errs: // notices were lost: the file is looked at
		return false, nil
	case <-c.poll.C:
		return false, nil
	case <-c.check.C:
		return true, nil
	}
}
