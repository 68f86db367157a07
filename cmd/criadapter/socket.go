package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/config"
)

// listen returns the CRI sockets: all from systemd, and the one at path. With an empty path, it accepts only systemd's
// sockets. It replaces a stale socket, but not a socket on which a server answers. The caller holds the lock of the
// root directory, so no second server of the same state does this concurrently.
func listen(path string) ([]net.Listener, error) {
	passed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("taking the socket from systemd: %w", err)
	}
	// A passed file that is not a socket is nil.
	return listenBeside(slices.DeleteFunc(passed, func(listener net.Listener) bool { return listener == nil }), path)
}

// listenBeside returns the sockets from systemd and a new socket at path with mode 0600. It makes no new socket if path
// is empty or the path of a socket from systemd.
func listenBeside(passed []net.Listener, path string) ([]net.Listener, error) {
	if path == "" && len(passed) == 0 {
		return nil, errors.New(
			"--container-runtime-endpoint: systemd passed no socket on: start criadapter by its socket unit, or " +
				"name a unix:// path")
	}
	isThere := func(listener net.Listener) bool {
		return config.CleanSocket(listener.Addr().String()) == config.CleanSocket(path)
	}
	if path == "" || slices.ContainsFunc(passed, isThere) {
		return passed, nil
	}
	listener, err := listenUnix("--container-runtime-endpoint", path)
	if err != nil {
		return nil, err
	}
	return append(passed, listener), nil
}

// listenUnix makes a socket at path. flag is the flag with the path, for errors. The socket and a new directory are for
// their owner alone. An existing directory, such as /run, stays as it is.
func listenUnix(flag, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the socket's directory: %w", err)
	}
	if err := replaceStale(flag, path); err != nil {
		return nil, err
	}
	// The umask sets the mode, because it must be right from the first moment.
	old := unix.Umask(0o177)
	listener, err := net.Listen("unix", path)
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", flag, err)
	}
	return listener, nil
}

func replaceStale(flag, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for an old socket: %w", err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s: %s exists and is not a socket, remove it or choose another path", flag, path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("another server answers on %s: stop it, or choose another %s", path, flag)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("cannot find out whether another process uses the socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing a stale socket: %w", err)
	}
	return nil
}

// lockPatience bounds the wait for the lock of a root directory. A child process of a killed server holds the lock
// until it executes the CNI plugin, which takes a moment on a busy machine.
const (
	lockPatience = 2 * time.Second
	lockPause    = 20 * time.Millisecond
)

// lockRoot makes and locks the root directory. The kernel releases the lock when the process ends. If another
// criadapter has the lock, the error ends with the remedy.
func lockRoot(dir, remedy string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("making --root-directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of --root-directory: %w", err)
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another criadapter uses %s: %s", dir, remedy)
		}
		return nil, fmt.Errorf("locking --root-directory: %w", err)
	}
	return file, nil
}
