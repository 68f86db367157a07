package main

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/criadapter/criadapter/test/program"
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

// lockBinaries locks the binaries of a directory against other rigs, which may test another checkout, until unlock is
// called. A killed rig leaves no lock. lockBinaries waits at most until another rig has linked these binaries.
func lockBinaries(dir string) (unlock func(), err error) {
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close()
		return nil, err
	}
	return func() { lock.Close() }, nil
}

// linkOrCopy makes a hard link to a file, or copies it to another file system. The go command replaces a binary instead
// of writing into it. So running tests keep their binary when another rig compiles.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	return program.CopyFile(from, to)
}
