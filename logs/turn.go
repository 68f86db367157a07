package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// standing is the state of a follower after a turn.
type standing int

const (
	// behind: there is more to copy now.
	behind standing = iota
	// level: everything is copied. An event will announce more output.
	level
	// ended: everything is copied, and no more output follows.
	ended
)

// successor is the engine's file after the current one, as found while the engine had both. Output is missing only if
// the engine has dropped the successor, too. The zero value is none.
type successor struct {
	inode uint64
	born  int64
}

// catchUp copies the output in the engine's files in one turn. draining says that the container has ended.
func (f *follower) catchUp(ctx context.Context, draining bool) (standing, error) {
	b := f.buffers.Get().(*buffers)
	defer f.putBuffers(b)
	if f.copy.in == nil {
		if opened, err := f.openFirst(); err != nil || !opened {
			return f.idle(draining), err
		}
	}
	for ctx.Err() == nil {
		more, err := f.copy.copyOn(b, false)
		rotated, lookErr := f.rotated() // even after a failed copy: the engine may drop the file meanwhile
		if err = errors.Join(err, lookErr); err != nil || more {
			return behind, err
		}
		if !rotated && !draining {
			return f.idle(draining), nil
		}
		// The container has ended, or the engine writes to another file. The current file gets no more output, so this
		// copy is its last.
		if _, err := f.copy.copyOn(b, true); err != nil {
			return behind, err
		}
		if !rotated {
			return ended, nil
		}
		if moved, err := f.openNext(); err != nil || !moved {
			return f.idle(draining), err
		}
	}
	return behind, nil
}

// idle returns the state of a follower without output to copy. The engine removes the directory after its files. So the
// directory is checked only if the current file is gone, and the removal of the file wakes the follower.
func (f *follower) idle(draining bool) standing {
	if draining || (f.copy.in == nil || f.vanished) && f.dirGone() {
		return ended
	}
	return level
}

// putBuffers returns buffers to the pool, unless a damaged file made them large.
func (f *follower) putBuffers(b *buffers) {
	if len(b.in) == batchSize {
		f.buffers.Put(b)
	}
}

// openFirst opens the engine's oldest file, if there is one.
func (f *follower) openFirst() (bool, error) {
	file, g, err := openGeneration(f.source.Path, oldest)
	if err != nil || file == nil {
		return false, err
	}
	f.begin(file, g)
	return true, nil
}

// begin continues at the start of the given file of the engine.
func (f *follower) begin(file *os.File, g generation) {
	f.copy.use(file, g, 0, 0)
	f.next = successor{}
	f.save()
}

// rotated reports whether the engine writes to another file than the current one, and records the successor.
func (f *follower) rotated() (bool, error) {
	info, err := os.Stat(f.source.Path)
	f.vanished = errors.Is(err, fs.ErrNotExist)
	if f.vanished {
		return false, nil // removed, or in the middle of a rotation
	}
	if err != nil {
		return false, fmt.Errorf("looking at the engine's log: %w", err)
	}
	if inodeOf(info) == f.copy.inode {
		return false, nil
	}
	return true, f.findNext()
}

// findNext records the successor of the current file, if the engine has both.
func (f *follower) findNext() error {
	if f.next != (successor{}) {
		return nil
	}
	file, g, err := openGeneration(f.source.Path, func(list []generation) *generation {
		if indexOf(list, f.copy.inode) < 0 {
			return nil
		}
		return nextGeneration(f.copy.inode)(list)
	})
	if err != nil || file == nil {
		return err
	}
	f.next = successor{g.inode, bornAt(file)}
	file.Close() // only looked at
	return nil
}

// openNext continues with the engine's file after the current one.
func (f *follower) openNext() (bool, error) {
	dropped, only := false, false
	file, g, err := openGeneration(f.source.Path, func(list []generation) *generation {
		dropped, only = indexOf(list, f.copy.inode) < 0, len(list) == 1
		return nextGeneration(f.copy.inode)(list)
	})
	if err != nil || file == nil {
		return false, err
	}
	if dropped && f.next != (successor{g.inode, bornAt(file)}) && !(only && replaces(file, f.copy.in)) {
		f.openGap()
	}
	f.begin(file, g)
	return true, nil
}

// replaceTime is how long the engine may take between the removal of a file and the creation of the next one.
const replaceTime = 50 * time.Millisecond

// replaces reports whether the engine made next when it removed old. With max-file=1 it does so at each rotation, and
// the two never exist at the same time. With more files, next may be a later file, so the caller also checks that next
// is the engine's only file.
func replaces(next, old *os.File) bool {
	var stat unix.Stat_t
	born := bornAt(next)
	if born == 0 || unix.Fstat(int(old.Fd()), &stat) != nil || stat.Nlink > 0 {
		return false
	}
	late := time.Duration(born - stat.Ctim.Nano()) // the removal is the last change of old
	return late >= 0 && late < replaceTime
}
