package logs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// watcher wakes followers when something happens in the engine's folders. One
// inotify instance serves all of them. A watch fires once and has to be armed
// again: a container that writes a million lines a second must not cause as
// many events, neither here nor in the engine, which pays for them in its own
// writes.
type watcher struct {
	inotify *os.File
	fd      int // of inotify; asking the file for it would make it block
	group   sync.WaitGroup

	mu    sync.Mutex
	wakes map[int]chan<- struct{} // by watch descriptor
}

// watched is what wakes: changes of the files in a folder, and the end of the
// folder itself.
const watched = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

func newWatcher() (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the engine's logs, raise fs.inotify.max_user_instances: %w", err)
	}
	w := &watcher{inotify: os.NewFile(uintptr(fd), "inotify"), fd: fd, wakes: map[int]chan<- struct{}{}}
	w.group.Go(w.dispatch)
	return w, nil
}

// arm leaves a value in wake, a channel with room for one, at the next change
// in the folder. It returns the watch for disarm. A missing folder is
// fs.ErrNotExist. A folder has one receiver.
func (w *watcher) arm(folder string, wake chan<- struct{}) (watch int, err error) {
	w.mu.Lock() // dispatch must not see an event before its receiver is known
	defer w.mu.Unlock()
	if w.wakes == nil {
		return 0, fmt.Errorf("watching %s: %w", folder, fs.ErrClosed)
	}
	watch, err = unix.InotifyAddWatch(w.fd, folder, watched|unix.IN_ONLYDIR|unix.IN_ONESHOT)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return 0, fmt.Errorf("no inotify watch is left for %s, raise fs.inotify.max_user_watches: %w", folder, errdefs.ErrResourceExhausted)
	case err != nil:
		return 0, fmt.Errorf("watching the folder of the engine's log: %w", err)
	}
	w.wakes[watch] = wake
	return watch, nil
}

// disarm ends a watch, if it has not fired.
func (w *watcher) disarm(watch int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, armed := w.wakes[watch]; armed {
		delete(w.wakes, watch)
		// Fails when it is firing now, or its folder was removed.
		_, _ = unix.InotifyRmWatch(w.fd, uint32(watch))
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	w.wakes = nil
	err := w.inotify.Close()
	w.mu.Unlock()
	if err != nil {
		logrus.WithError(err).Warn("ending the watch of the engine's logs")
	}
	w.group.Wait()
}

// dispatch runs until close.
func (w *watcher) dispatch() {
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.inotify.Read(buffer)
		if errors.Is(err, fs.ErrClosed) {
			return
		}
		if err != nil {
			// Nothing but a lack of kernel memory is left as a cause.
			logrus.WithError(err).Error("watching the engine's logs, containers' logs may come late")
			return
		}
		w.wake(buffer[:n])
	}
}

// wake tells the receivers of events, which are laid out as inotify(7) says.
func (w *watcher) wake(events []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int(int32(binary.NativeEndian.Uint32(events)))
		mask := binary.NativeEndian.Uint32(events[4:])
		name := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(unix.SizeofInotifyEvent+name, len(events)):]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			// Nobody knows whose events were dropped.
			for _, receiver := range w.wakes {
				notify(receiver)
			}
			clear(w.wakes)
			continue
		}
		notify(w.wakes[watch])
		delete(w.wakes, watch)
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
