package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/cgroups"
)

const scratchPrefix = "criadapter-rig-"

// scratch is the directory of one run of the rig. The run holds the directory's lock. The first process in the
// namespaces inherits the lock and holds it, too. A later run recognises the directory of a killed run by its free
// lock.
type scratch struct {
	dir  string
	lock *os.File
}

// newScratch makes the directory, and removes the directories of killed runs. The path is short, for the sockets in it.
func newScratch() (*scratch, error) {
	sweep()
	dir, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir}
	if err := os.Chmod(dir, 0o755); err != nil { // users in containers need access
		return nil, errors.Join(err, s.remove())
	}
	// The lock file gets its name only when it is locked. Otherwise sweep in another run could take the directory for a
	// killed run's.
	if s.lock, err = os.Create(s.path("lock.new")); err == nil {
		err = syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(s.path("lock.new"), s.path("lock"))
	}
	if err == nil {
		err = os.Mkdir(s.workDir(), 0o755)
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

func (s *scratch) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scratch) workDir() string { return s.path("work") }

// cgroup is the name of the control group below which the private engine puts containers that name no parent.
func (s *scratch) cgroup() string { return filepath.Base(s.dir) }

// remove deletes the directory and the empty control groups of the run.
func (s *scratch) remove() error {
	_ = cgroups.Remove(s.cgroup()) // fails for a cgroup in use, as it should
	err := os.RemoveAll(s.dir)
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// abandoned says whether a directory without a lock has not changed for an hour. Its run was killed while it was making
// or removing the directory.
func abandoned(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && time.Since(info.ModTime()) > time.Hour
}

// sweep removes the directories of killed runs, whose locks are free. A directory that cannot be removed stays for the
// next run.
func sweep() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil && (!errors.Is(err, fs.ErrNotExist) || !abandoned(dir)) {
			continue // another run is just making or removing it, or the lock cannot be looked at
		}
		s := &scratch{dir: dir, lock: lock}
		if lock != nil && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			lock.Close()
			continue
		}
		if err := s.remove(); err != nil {
			fmt.Fprintf(os.Stderr, "rig: remains of a killed run: %v\n", err)
		}
	}
}
