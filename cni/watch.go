package cni

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/fsnotify/fsnotify"
	log "github.com/sirupsen/logrus"
)

const (
	// quiet is how long the folder must rest before it is read: an installer
	// writes a file in several steps and often several files.
	quiet = 50 * time.Millisecond
	// maxDelay is the longest that a folder that never rests can put off its
	// reading.
	maxDelay = 500 * time.Millisecond
	// retryDelay is the pause after a watch could not be set.
	retryDelay = 10 * time.Second
)

// watcher calls a function after every change that may matter to a
// configuration folder. There is no polling: between changes it costs nothing.
//
// Its goroutine is started by startWatcher and ended by close.
type watcher struct {
	dir    string
	notify *fsnotify.Watcher
	reload func()
	done   chan struct{}
	// watched is what renew set last; after startWatcher only run uses it.
	watched targets
}

// startWatcher calls reload once, with the watches already in place so that no
// later change is missed, and then from a goroutine of its own.
func startWatcher(dir string, reload func()) (*watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, watchError(dir, err)
	}
	w := &watcher{dir: dir, notify: notify, reload: reload, done: make(chan struct{})}
	if err := w.renew(); err != nil {
		return nil, errors.Join(watchError(dir, err), notify.Close())
	}
	reload()
	go w.run()
	return w, nil
}

func (w *watcher) close() error {
	err := w.notify.Close()
	<-w.done
	return err
}

func (w *watcher) run() {
	defer close(w.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	var first time.Time // of the changes that wait for their reading
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			if !w.matters(event) {
				continue
			}
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			// Events were lost, so something may have changed.
			log.WithField("dir", w.dir).WithError(err).Warn("CNI configuration watch disturbed, reading the folder again")
		case <-timer.C:
			first = time.Time{}
			if err := w.renew(); err != nil {
				log.WithError(watchError(w.dir, err)).Error("CNI configuration changes may go unnoticed")
				timer.Reset(retryDelay)
			}
			w.reload()
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		timer.Reset(min(quiet, max(0, maxDelay-time.Since(first))))
	}
}

// matters reports whether an event can change what loadDir finds: anything in
// the folders with content, and of a folder on the way there only the next
// step towards the configuration folder.
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

// renew sets every watch afresh. An inotify watch belongs to an inode, not to a
// path, so one that was set before the folder was moved away or replaced looks
// at the wrong place; setting all of them again is simpler than telling which.
// Changes in between are seen by the reading that follows.
func (w *watcher) renew() error {
	for _, path := range w.notify.WatchList() {
		// Gone already when its folder was deleted.
		_ = w.notify.Remove(path)
	}
	const rounds = 10 // while folders are being made under our hands
	w.watched = targets{}
	for range rounds {
		now := findTargets(w.dir)
		if now.equal(w.watched) {
			return nil
		}
		w.watched = now
		for _, path := range slices.Concat(now.path, now.content) {
			err := w.notify.Add(path)
			if errors.Is(err, fsnotify.ErrClosed) {
				return nil
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("watch %s: %w", path, err)
			}
		}
	}
	return fmt.Errorf("watch %s: its folders keep changing", w.dir)
}

// targets are the folders to watch.
type targets struct {
	// path tells when the configuration folder appears or is replaced: its
	// parent, or the nearest one that exists.
	path []string
	// content holds configuration: the folder itself, the plugin folders in
	// it, and the folders that symlinked files lie in, since a mounted
	// ConfigMap changes there and not beside the link.
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
		// loadDir reports it.
		return found
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.Type()&os.ModeSymlink != 0:
			found.content = append(found.content, linkFolders(path)...)
		case entry.IsDir() && !strings.HasPrefix(entry.Name(), "."):
			found.content = append(found.content, path)
		}
	}
	slices.Sort(found.content)
	found.content = slices.Compact(found.content)
	return found
}

// linkFolders returns the folder that a symlink names and the one that its
// target really lies in, when they exist.
func linkFolders(link string) []string {
	var folders []string
	if target, err := os.Readlink(link); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		folders = append(folders, filepath.Dir(target))
	}
	if target, err := filepath.EvalSymlinks(link); err == nil {
		folders = append(folders, filepath.Dir(target))
	}
	return slices.DeleteFunc(folders, func(path string) bool { return !isDir(path) })
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func watchError(dir string, err error) error {
	return fmt.Errorf("watch CNI configuration folder %s (raise fs.inotify.max_user_instances or max_user_watches if they are used up): %w: %w",
		dir, err, errdefs.ErrUnavailable)
}
