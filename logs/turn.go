package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// standing is where a follower is after a turn.
type standing int

const (
	// behind: there is more to copy now.
	behind standing = iota
	// level: everything is copied, an event will tell when there is more.
	level
	// ended: everything is copied and nothing will follow.
	ended
)

// successor is the file that the engine began after the current one, as it was found while the engine still had both:
// only where it has dropped the successor, too, is output missing. The zero value is none.
type successor struct {
	inode uint64
	born  int64
}

// catchUp writes out what the engine's files hold, for one turn.
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
		rotated, lookErr := f.rotated() // also when the disk is full: the engine may drop the file until it is not
		if err = errors.Join(err, lookErr); err != nil || more {
			return behind, err
		}
		if !rotated && !draining {
			return f.idle(draining), nil
		}
		// The engine has ended or writes to another file. What it wrote to this
		// one between the copy and that is all that will ever be there.
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

// idle is where a follower is that has nothing to copy. The directory goes after its files: as long as the current one is
// there nobody asks for it, and that it goes wakes the follower.
func (f *follower) idle(draining bool) standing {
	if draining || (f.copy.in == nil || f.vanished) && f.dirGone() {
		return ended
	}
	return level
}

// putBuffers gives buffers back, unless a damaged file made them large.
func (f *follower) putBuffers(b *buffers) {
	if len(b.in) == batchSize {
		f.buffers.Put(b)
	}
}

// openFirst opens the oldest file of the engine, when there is one yet.
func (f *follower) openFirst() (bool, error) {
	file, g, err := openGeneration(f.source.Path, oldest)
	if err != nil || file == nil {
		return false, err
	}
	f.begin(file, g)
	return true, nil
}

// begin goes on at the start of a file of the engine.
func (f *follower) begin(file *os.File, g generation) {
	f.copy.use(file, g, 0, 0)
	f.next = successor{}
	f.save()
}

// rotated reports whether the engine writes to another file than the current, and notes which came after it.
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

// findNext notes the successor of the current file, if the engine has both.
func (f *follower) findNext() error {
	if f.next != (successor{}) {
		return nil
	}
	file, g, err := openGeneration(f.source.Path, func(list []generation) *generation {
		if indexOf(list, f.copy.inode) < 0 {
			return nil
		}
		return after(f.copy.inode)(list)
	})
	if err != nil || file == nil {
		return err
	}
	f.next = successor{g.inode, bornAt(file)}
	file.Close() // only looked at
	return nil
}

// openNext goes on with the file that the engine began after the current one.
func (f *follower) openNext() (bool, error) {
	dropped := false
	file, g, err := openGeneration(f.source.Path, func(list []generation) *generation {
		dropped = indexOf(list, f.copy.inode) < 0
		return after(f.copy.inode)(list)
	})
	if err != nil || file == nil {
		return false, err
	}
	if dropped && f.next != (successor{g.inode, bornAt(file)}) {
		f.openGap()
	}
	f.begin(file, g)
	return true, nil
}
