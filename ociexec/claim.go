package ociexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file that a Runner and its keeper hold locked, in the directory of their start.
const lockName = "lock"

const (
	// turnLimit bounds the wait for other starts, which claim within milliseconds. turnCheck is the pause between two
	// tries.
	turnLimit, turnCheck = 10 * time.Second, 20 * time.Millisecond
)

// claim makes a directory for this start in base, and removes everything there that no process uses. A keeper whose
// program was killed still uses its own directory for a moment. The lock of base lets one start at a time claim: no
// other start sees the new directory unlocked, or tries its lock.
func claim(base string) (dir string, lock *os.File, err error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", nil, err
	}
	turn, err := os.Open(base)
	if err != nil {
		return "", nil, err
	}
	defer turn.Close()
	if err := await(turn); err != nil {
		return "", nil, err
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		if path := filepath.Join(base, entry.Name()); !used(path) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	if err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(base, ""); err != nil {
		return "", nil, err
	}
	if lock, err = own(dir); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// await locks base for this start. It fails if another process keeps the lock for turnLimit.
func await(base *os.File) error {
	for deadline := time.Now().Add(turnLimit); ; time.Sleep(turnCheck) {
		err := unix.Flock(int(base.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return fmt.Errorf("lock directory %s: %w", base.Name(), err)
		}
	}
}

// own makes and locks the lock file of a new directory. The lock shows other starts that the directory is in use.
func own(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(os.NewSyscallError("flock", err), lock.Close())
	}
	return lock, nil
}

// used reports whether a process holds the lock of a start. It also returns true if the lock cannot be tried.
func used(dir string) bool {
	lock, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
	}
	defer lock.Close()
	return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}
