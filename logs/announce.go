package logs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// announce returns a file that becomes readable at the first event of an inotify instance. The file shows no later
// event until announceNext is called. If Go's poller watched the instance itself, each event would wake the process.
func announce(inotify int) (*os.File, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making an epoll instance: %w", err)
	}
	event := onceReadable(inotify)
	err = errors.Join(unix.SetNonblock(fd, true), unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, inotify, &event))
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("polling an inotify instance: %w", err)
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}

// announceNext makes the file readable at the instance's next event. If an event waits already, the file becomes
// readable at once.
func announceNext(ready *os.File, inotify int) error {
	conn, err := ready.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		event := onceReadable(inotify)
		failed = unix.EpollCtl(int(fd), unix.EPOLL_CTL_MOD, inotify, &event)
	})
	return errors.Join(err, failed)
}

func onceReadable(fd int) unix.EpollEvent {
	return unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(fd)}
}

// awaitAnnounced waits until the file is readable. It fails when the file is closed.
func awaitAnnounced(ready *os.File) error {
	conn, err := ready.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool {
		var events [1]unix.EpollEvent
		n, _ := unix.EpollWait(int(fd), events[:], 0)
		return n > 0
	})
}
