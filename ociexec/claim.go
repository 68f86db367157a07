package ociexec

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockName is the file that a Runner and its keeper hold locked, in the directory of their start.
const lockName = "lock"

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
	if err := unix.Flock(int(turn.Fd()), unix.LOCK_EX); err != nil {
		return "", nil, os.NewSyscallError("flock", err)
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
	lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return "", nil, errors.Join(os.NewSyscallError("flock", err), lock.Close())
	}
	return dir, lock, nil
}

// used reports whether a process holds the lock of a start.
func used(dir string) bool {
	lock, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return false
	}
	defer lock.Close()
	return errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
