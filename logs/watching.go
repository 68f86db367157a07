package logs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// watching is the directory that a follower watches.
type watching struct {
	dir    string // empty for none
	armed  bool   // the watch has not fired
	watch  int    // the watch's number
	lacked bool   // the kernel had no watch left, so the follower polls
}

// watchDir makes the next change in the directory of the engine's log wake the follower. The local driver creates the
// directory at the container's first start. Until then the container's own directory is watched. Without a watch, the
// follower polls until it has one.
func (f *follower) watchDir() error {
	if f.watching.armed {
		return nil
	}
	dir := filepath.Dir(f.source.Path)
	err := f.arm(dir)
	if !errors.Is(err, fs.ErrNotExist) || f.watching.dir == dir {
		return ignoreNotExist(err) // removed with the container: the next turn sees it
	}
	if f.source.Driver != DriverLocal {
		return err
	}
	above := filepath.Dir(dir)
	if err := f.arm(above); err != nil {
		if f.watching.dir == above {
			return ignoreNotExist(err)
		}
		return err
	}
	return ignoreNotExist(f.arm(dir)) // dir may have been created before the watch began
}

// arm watches a directory instead of the present one, or records that the follower must poll. It fails if the directory
// does not exist.
func (f *follower) arm(dir string) error {
	watch, err := f.watch.arm(dir, f.wake)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		if _, err := os.Stat(dir); err != nil {
			return err
		}
	}
	if f.watching.dir != dir && f.watching.armed {
		f.watch.disarm(f.watching.watch, f.wake)
	}
	f.lack(err)
	f.watching = watching{dir: dir, armed: err == nil, watch: watch, lacked: err != nil}
	return nil
}

// lack counts the follower as unwatched while err is not nil.
func (f *follower) lack(err error) {
	if lacks := err != nil; lacks != f.watching.lacked {
		f.watch.lack(lacks, err)
		f.watching.lacked = lacks
	}
}

// unwatch ends the watch.
func (f *follower) unwatch() {
	if f.watching.armed {
		f.watch.disarm(f.watching.watch, f.wake)
	}
	f.lack(nil)
	f.watching.armed = false
}

// dirGone reports whether the watched directory is gone. The engine removes it with the container.
func (f *follower) dirGone() bool {
	_, err := os.Stat(f.watching.dir)
	return errors.Is(err, fs.ErrNotExist)
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
