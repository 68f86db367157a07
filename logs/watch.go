package logs

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/containerd/errdefs"
)

// watcher wakes followers when something happens in the engine's folders. One
// inotify instance serves all of them.
type watcher struct {
	inotify *fsnotify.Watcher
	group   sync.WaitGroup

	mu    sync.Mutex
	wakes map[string]chan<- struct{} // by folder
}

func newWatcher() (*watcher, error) {
	inotify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("cannot watch the engine's logs, raise fs.inotify.max_user_instances: %w", err)
	}
	w := &watcher{inotify: inotify, wakes: map[string]chan<- struct{}{}}
	w.group.Go(w.dispatch)
	return w, nil
}

// add wakes the receiver of wake, a channel with room for one value, on every
// change of the folder and of the files in it. A missing folder is
// fs.ErrNotExist. A folder has one receiver.
func (w *watcher) add(folder string, wake chan<- struct{}) error {
	w.mu.Lock()
	w.wakes[folder] = wake
	w.mu.Unlock()
	err := w.inotify.Add(folder)
	if err == nil {
		return nil
	}
	w.mu.Lock()
	delete(w.wakes, folder)
	w.mu.Unlock()
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("no inotify watch is left for %s, raise fs.inotify.max_user_watches: %w", folder, errdefs.ErrResourceExhausted)
	}
	return fmt.Errorf("watching the folder of the engine's log: %w", err)
}

// remove ends the watch of a folder, if there is one.
func (w *watcher) remove(folder string) {
	w.mu.Lock()
	_, watched := w.wakes[folder]
	delete(w.wakes, folder)
	w.mu.Unlock()
	if watched {
		// The kernel drops the watch of a removed folder by itself; then this
		// fails and there is nothing left to end.
		_ = w.inotify.Remove(folder)
	}
}

func (w *watcher) close() {
	_ = w.inotify.Close() // its only error is that of closing the descriptor
	w.group.Wait()
}

// dispatch runs until close.
func (w *watcher) dispatch() {
	events, errs := w.inotify.Events, w.inotify.Errors
	for events != nil || errs != nil {
		select {
		case event, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			w.wake(event.Name)
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			// After an overflow nobody knows whose events were dropped.
			w.wakeAll()
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				logrus.WithError(err).Warn("watching the engine's logs")
			}
		}
	}
}

// wake tells the follower of the folder in which name lies, or which name is.
func (w *watcher) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	notify(w.wakes[filepath.Dir(name)])
	notify(w.wakes[name])
}

func (w *watcher) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wake := range w.wakes {
		notify(wake)
	}
}

// notify leaves a value in a channel with room for one, unless one is waiting
// there or the channel is nil.
func notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
