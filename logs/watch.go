package logs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/pace"
)

// watcher wakes followers after a change in the engine's directories. One inotify instance serves all of them. A watch
// fires once and must be armed again. Otherwise a container that writes a million lines a second would cause a million
// events, and the engine would pay for them in its writes. fsnotify has no watch that fires once.
//
// The watcher waits for pause between an event and the wake-up. So lines that come shortly after each other cost one
// copy, and the lines of many containers share a wake-up. A busy container wakes its follower once per pause. No event
// wakes the process during a pause (announce.go).
//
// The kernel limits instances and watches per user (fs.inotify.max_user_instances and max_user_watches), and other
// programs may use them up. So arm tries again each time.
type watcher struct {
	ctx     context.Context // the service's context; its end ends a pause
	log     *log.Entry
	pause   time.Duration
	group   sync.WaitGroup
	lacking atomic.Int64 // followers without a watch
	logged  sync.Once    // logs only the first missing watch

	mu      sync.Mutex
	closed  bool
	inotify *os.File                // announces events, nil for none
	fd      int                     // the inotify instance
	wakes   map[int]chan<- struct{} // by watch descriptor
}

// watched are the events that wake a follower: changes of the files in a directory, and the end of the directory.
const watched = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// arm watches a directory: its next change sends a value to wake, a channel with room for one. arm returns the watch,
// for disarm. It fails with fs.ErrNotExist if the directory is missing, and with another error if no watch can be made.
// A directory can have only one receiver.
func (w *watcher) arm(dir string, wake chan<- struct{}) (watch int, err error) {
	w.mu.Lock() // dispatch must not get an event before its receiver is added
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
	ready, err := announce(fd)
	if err != nil {
		unix.Close(fd)
		return err
	}
	w.inotify, w.fd, w.wakes = ready, fd, map[int]chan<- struct{}{}
	inotify := w.inotify
	w.group.Go(func() { w.dispatch(inotify) })
	return nil
}

// lack adds a follower to the followers without a watch, or takes it off once it has a watch again. It logs the reason
// of the first missing watch.
func (w *watcher) lack(lacks bool, reason error) {
	if !lacks {
		w.lacking.Add(-1)
		return
	}
	w.lacking.Add(1)
	w.logged.Do(func() {
		w.log.WithError(reason).
			Warn(
				"no inotify watch left, container logs are polled; raise fs.inotify.max_user_instances and " +
					"max_user_watches")
	})
}

// disarm ends a receiver's watch, if it has not fired.
func (w *watcher) disarm(watch int, wake chan<- struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wakes[watch] == wake {
		delete(w.wakes, watch)
		// The removal of the watch fails if the watch is firing, or its directory was removed.
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

// lose closes the instance, if there is one, and wakes all receivers, so that they arm their watches on another
// instance.
func (w *watcher) lose(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify == nil {
		return
	}
	if reason != nil {
		w.log.WithError(reason).Error("lost inotify instance for engine logs, making a new one")
	}
	w.inotify.Close() // only read
	unix.Close(w.fd)
	w.inotify = nil
	w.wakeAll()
}

// wakeAll wakes all receivers. The caller holds mu.
func (w *watcher) wakeAll() {
	for _, receiver := range w.wakes {
		notify(receiver)
	}
	clear(w.wakes)
}

// dispatch runs until the instance is closed.
func (w *watcher) dispatch(ready *os.File) {
	buffer := make([]byte, 64<<10) // for the events of a thousand containers
	err := awaitAnnounced(ready)
	for ; err == nil; err = awaitAnnounced(ready) {
		_ = pace.Sleep(w.ctx, w.pause) // when ctx ends, close follows
		if err = w.wake(ready, buffer); err != nil {
			break
		}
	}
	if w.serves(ready) { // otherwise lose has closed it
		w.lose(err)
	}
}

// serves reports whether ready belongs to the present inotify instance.
func (w *watcher) serves(ready *os.File) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inotify == ready
}

// wake reads the waiting events (see inotify(7)), wakes their receivers, and calls announceNext.
func (w *watcher) wake(ready *os.File, buffer []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify != ready {
		return nil // lose has woken all receivers
	}
	n, err := unix.Read(w.fd, buffer)
	if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		return err // the only cause left is too little kernel memory
	}
	events := buffer[:max(n, 0)]
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int(int32(binary.NativeEndian.Uint32(events)))
		mask := binary.NativeEndian.Uint32(events[4:])
		name := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(unix.SizeofInotifyEvent+name, len(events)):]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			// The kernel does not report which watches lost events.
			w.wakeAll()
			continue
		}
		notify(w.wakes[watch])
		delete(w.wakes, watch)
	}
	return announceNext(ready, w.fd)
}

// notify leaves a value in a channel with room for one, unless one is waiting there or the channel is nil.
func notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
