package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const scratchPrefix = "criadapter-rig-"

// scratch is the directory of one run of the rig. Its lock is held for as long as anything of the run lives (the
// process in the namespaces inherits it), so that a later run can tell the remains of a killed one.
type scratch struct {
	dir  string
	lock *os.File
}

// newScratch makes the directory, and removes those that killed runs left. The path is short, for the sockets in it.
func newScratch() (*scratch, error) {
	sweep()
	dir, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir}
	if err := os.Chmod(dir, 0o755); err != nil { // users inside of containers look in
		return nil, errors.Join(err, s.remove())
	}
	if s.lock, err = os.Create(s.path("lock")); err == nil {
		err = syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
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
	removeCgroups(s.cgroup())
	err := os.RemoveAll(s.dir)
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// sweep removes what runs that were killed left behind: directories whose lock nobody holds. What cannot be removed is
// left for another time, it does not hinder this run.
func sweep() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue // another run is just making it
		}
		s := &scratch{dir: dir, lock: lock}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			lock.Close()
			continue
		}
		if err := s.remove(); err != nil {
			fmt.Fprintf(os.Stderr, "rig: remains of a killed run: %v\n", err)
		}
	}
}

// removeCgroups removes the control group of that name with its children in every hierarchy, as far as they are empty.
func removeCgroups(name string) {
	roots, err := filepath.Glob(filepath.Join("/sys/fs/cgroup", "*", name))
	if err != nil {
		return
	}
	for _, root := range append(roots, filepath.Join("/sys/fs/cgroup", name)) {
		var dirs []string
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // what has vanished meanwhile need not be removed
		})
		for i := len(dirs) - 1; i >= 0; i-- { // children before parents
			_ = syscall.Rmdir(dirs[i]) // fails on one that is in use, as it should
		}
	}
}
