package main

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/criadapter/criadapter/test/rig/cache"
)

// binariesDir is the cache's directory for test binaries that are compiled as opts says.
func binariesDir(opts testOptions) (string, error) {
	base, err := cache.Dir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "tests", "race")
	if opts.noRace {
		dir = filepath.Join(base, "tests", "norace")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// lockBinary keeps other rigs, which may test another checkout, from a binary until unlock is called. A killed rig
// leaves no lock. The wait is as long as another rig links one binary.
func lockBinary(path string) (unlock func(), err error) {
	lock, err := os.Create(path + ".lock")
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close()
		return nil, err
	}
	return func() { lock.Close() }, nil
}

// linkOrCopy gives a file a second name, or copies it where the name is on another file system. The go command replaces
// the first name and leaves the content, so that tests that run keep theirs when another rig compiles.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	return copyFile(from, to)
}
