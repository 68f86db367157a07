package logs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"
)

// watcher wakes followers when something happens in the engine's directories. One inotify instance serves all of them.
// A watch fires once and has to be armed again: a container that writes a million lines a second must not cause as many
// events, neither here nor in the engine, which pays for them in its own writes. It is our own because fsnotify has no
// watch that fires once.
//
// Instances and watches are limited per user (fs.inotify.max_user_instances and max_user_watches), so that others may
// have taken all of them: arm tries anew each time.
type watcher struct {
	log     *log.Entry
	group   sync.WaitGroup
	lacking atomic.Int64 // followers without a watch
	logged  sync.Once    // the lack

	mu      sync.Mutex
	closed  bool
	inotify *os.File                // nil for none
	fd      int                     // of inotify; asking the file for it would make it block
	wakes   map[int]chan<- struct{} // by watch descriptor
}

// watched is what wakes: changes of the files in a directory, and the end of the directory itself.
const watched = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// arm leaves a value in wake, a channel with room for one, at the next change
// in the directory. It returns the watch for disarm. A missing directory is
// fs.ErrNotExist; any other error is a lack of watches. A directory has one receiver.
func (w *watcher) arm(dir string, wake chan<- struct{}) (watch int, err error) {
	w.mu.Lock() // dispatch must not see an event before its receiver is known
	defer w.mu.Unlock()
	if err := w.open(); err != nil {
		return 0, err
	}
	watch, err = unix.InotifyAddWatch(w.fd, dir, watched|unix.IN_ONLYDIR|unix.IN_ONESHOT)
	if err != nil {
		return 0, fmt.Errorf("watching %s: %w", dir, err)
	}
	w.wakes[watch] = wake
	return watch, nil
}

// open makes the inotify instance if there is none. The caller holds mu.
func (w *watcher) open() error {
	if w.closed {
		return fs.ErrClosed
	}
	if w.inotify != nil {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("making an inotify instance: %w", err)
	}
	w.inotify, w.fd, w.wakes = os.NewFile(uintptr(fd), "inotify"), fd, map[int]chan<- struct{}{}
	inotify := w.inotify
	w.group.Go(func() { w.dispatch(inotify) })
	return nil
}

// lack counts a follower that has no watch, or has one again. The first is logged with its reason.
func (w *watcher) lack(lacks bool, reason error) {
	if !lacks {
		w.lacking.Add(-1)
		return
	}
	w.lacking.Add(1)
	w.logged.Do(func() {
		w.log.WithError(reason).Warn("no inotify watch left, container logs are polled; raise fs.inotify.max_user_instances and max_user_watches")
	})
}

// disarm ends the watch of a receiver, if it has not fired.
func (w *watcher) disarm(watch int, wake chan<- struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wakes[watch] == wake {
		delete(w.wakes, watch)
		// Fails when it is firing now, or its directory was removed.
		_, _ = unix.InotifyRmWatch(w.fd, uint32(watch))
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.lose(nil)
	w.group.Wait()
}

// lose gives up the instance, if there is one, and wakes everybody, so that they arm their watches on a new one.
func (w *watcher) lose(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify == nil {
		return
	}
	if reason != nil {
		w.log.WithError(reason).Error("lost watch of engine logs, beginning a new one")
	}
	w.inotify.Close() // only read
	w.inotify = nil
	w.wakeAll()
}

// wakeAll tells all receivers. The caller holds mu.
func (w *watcher) wakeAll() {
	for _, receiver := range w.wakes {
		notify(receiver)
	}
	clear(w.wakes)
}

// dispatch runs until the instance is given up.
func (w *watcher) dispatch(inotify *os.File) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := inotify.Read(buffer)
		if errors.Is(err, fs.ErrClosed) {
			return
		}
		if err != nil {
			// Nothing but a lack of kernel memory is left as a cause.
			w.lose(err)
			return
		}
		w.wake(inotify, buffer[:n])
	}
}

// wake tells the receivers of an instance's events, which are laid out as inotify(7) says.
func (w *watcher) wake(inotify *os.File, events []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify != inotify {
		return // given up: everybody was told
	}
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int(int32(binary.NativeEndian.Uint32(events)))
		mask := binary.NativeEndian.Uint32(events[4:])
		name := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(unix.SizeofInotifyEvent+name, len(events)):]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			// Nobody knows whose events were dropped.
			w.wakeAll()
			continue
		}
		notify(w.wakes[watch])
		delete(w.wakes, watch)
	}
}

// notify leaves a value in a channel with room for one, unless one is waiting there or the channel is nil.
func notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
