package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long the directory must rest before it is read: an installer
	// writes a file in several steps and often several files.
	quiet = 50 * time.Millisecond
	// maxDelay bounds the time from a change to the reading if the directory never rests.
	maxDelay = 500 * time.Millisecond
	// retryDelay is the pause after a watch could not be set.
	retryDelay = 5 * time.Second
)

// watcher calls a function after every change that may matter to a configuration directory. It does not poll, so it
// costs nothing between changes. If the kernel has no inotify instance or watch left, the watcher calls the function
// periodically until there is one again.
//
// Its goroutine is started by startWatcher and ended by close.
type watcher struct {
	dir    string
	reload func(context.Context)
	stop   context.CancelFunc
	done   chan struct{}
	// asked holds a request to read the directory now.
	asked chan struct{}

	// Only the watching goroutine uses the fields below.
	notify  *fsnotify.Watcher // nil for none
	logged  bool              // whether the last failure to set the watches was logged
	watched targets           // the watches that renew set last
}

// startWatcher calls reload once, with the watches already in place so that no later change is missed. Then it calls
// reload from a goroutine of its own, until ctx ends or close is called.
func startWatcher(ctx context.Context, dir string, reload func(context.Context)) *watcher {
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{dir: dir, reload: reload, stop: stop, done: make(chan struct{}), asked: make(chan struct{}, 1)}
	again := w.read(ctx)
	go w.run(ctx, again)
	return w
}

// ask has the directory read soon, even if nothing has changed.
func (w *watcher) ask() {
	select {
	case w.asked <- struct{}{}:
	default: // an earlier request waits
	}
}

// close may be called more than once.
func (w *watcher) close() {
	w.stop()
	<-w.done
}

// run reads the directory after each change. If again is not 0, run also reads the directory after that time.
func (w *watcher) run(ctx context.Context, again time.Duration) {
	defer close(w.done)
	defer w.unwatch()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	if again > 0 {
		timer.Reset(again)
	}
	var first time.Time // the time of the first change since the last reading
	for {
		events, errs := w.channels()
		select {
		case <-ctx.Done():
			return
		case event := <-events:
			if !w.matters(event) {
				continue
			}
		case err := <-errs:
			// Events were lost, so something may have changed.
			log.G(ctx).WithField("dir", w.dir).WithError(err).
				Warn("CNI configuration watch lost events, reading the directory again")
		case <-w.asked:
			timer.Reset(0)
			continue
		case <-timer.C:
			first = time.Time{}
			if again := w.read(ctx); again > 0 {
				timer.Reset(again)
			}
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		timer.Reset(min(quiet, max(0, maxDelay-time.Since(first))))
	}
}

// read sets the watches and reads the directory. If a watch cannot be set, it returns the time until the next try,
// otherwise 0.
func (w *watcher) read(ctx context.Context) (again time.Duration) {
	err := w.renew()
	if err != nil {
		w.unwatch()
		again = retryDelay
	}
	if err != nil && !w.logged {
		log.G(ctx).WithField("dir", w.dir).WithField("period", retryDelay).WithError(err).
			Warn(
				"cannot watch CNI configuration, reading it periodically; raise fs.inotify.max_user_instances " +
					"and max_user_watches if they are used up")
	}
	w.logged = err != nil
	w.reload(ctx)
	return again
}

// channels returns the watch's channels, nil without one.
func (w *watcher) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.notify == nil {
		return nil, nil
	}
	return w.notify.Events, w.notify.Errors
}

func (w *watcher) unwatch() {
	if w.notify != nil {
		_ = w.notify.Close() // only read
		w.notify = nil
	}
}

// matters reports whether an event can change the result of loadDir. In a directory with content, each event except
// Chmod matters. In a parent directory, an event matters only for the next directory on the path to the configuration
// directory.
func (w *watcher) matters(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod {
		return false
	}
	return slices.Contains(w.watched.content, filepath.Dir(event.Name)) ||
		slices.Contains(w.watched.content, event.Name) ||
		isWithin(w.dir, event.Name)
}

// isWithin reports whether path is dir or below it.
func isWithin(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// renew sets every watch afresh. An inotify watch belongs to an inode, not to a path: it does not follow a directory
// that was moved or replaced. Setting all watches again is simpler than finding the stale ones. The caller
// reads the directory afterwards, so no change in between is missed.
func (w *watcher) renew() error {
	if w.notify == nil {
		notify, err := fsnotify.NewWatcher()
		if err != nil {
			return err
		}
		w.notify = notify
	}
	for _, path := range w.notify.WatchList() {
		// Gone already when its directory was deleted.
		_ = w.notify.Remove(path)
	}
	const rounds = 10 // directories may be created while the watches are set
	w.watched = targets{}
	for range rounds {
		now := findTargets(w.dir)
		if now.equal(w.watched) {
			return nil
		}
		w.watched = now
		for _, path := range slices.Concat(now.path, now.content) {
			err := w.notify.Add(path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("watch %s: %w", path, err)
			}
		}
	}
	return fmt.Errorf("watch %s: its directories keep changing", w.dir)
}

// targets are the directories to watch.
type targets struct {
	// path has the directory whose events show that the configuration directory appears or is replaced. It is the
	// nearest existing parent.
	path []string
	// content has the directories with configuration: the directory itself, the plugin directories in it, and the
	// directories of files that symlinks lead to. A mounted ConfigMap changes there, not beside the link.
	content []string
}

func (t targets) equal(other targets) bool {
	return slices.Equal(t.path, other.path) && slices.Equal(t.content, other.content)
}

func findTargets(dir string) targets {
	if !isDir(dir) {
		parent := filepath.Dir(dir)
		for !isDir(parent) && parent != filepath.Dir(parent) {
			parent = filepath.Dir(parent)
		}
		return targets{path: []string{parent}}
	}
	found := targets{path: []string{filepath.Dir(dir)}, content: []string{dir}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		// loadDir reports the error.
		return found
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.Type()&os.ModeSymlink != 0:
			found.content = append(found.content, linkDirs(path)...)
		case entry.IsDir() && !strings.HasPrefix(entry.Name(), "."):
			found.content = append(found.content, path)
		}
	}
	slices.Sort(found.content)
	found.content = slices.Compact(found.content)
	return found
}

// linkDirs returns the directory that a symlink names and the real directory of its target, if they exist.
func linkDirs(link string) []string {
	var dirs []string
	if target, err := os.Readlink(link); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		dirs = append(dirs, filepath.Dir(target))
	}
	if target, err := filepath.EvalSymlinks(link); err == nil {
		dirs = append(dirs, filepath.Dir(target))
	}
	return slices.DeleteFunc(dirs, func(path string) bool { return !isDir(path) })
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
