package logs

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"github.com/criadapter/criadapter/checkpoint"
)

// open opens the follower's files and goes to its position. On an error it closes them.
func (f *follower) open() error {
	if f.source.Resume != nil {
		f.at = *f.source.Resume
	}
	out, same, err := resumeOutput(f.source.Root, f.source.LogPath, f.at)
	if err != nil {
		return err
	}
	f.out, f.copy.out = out, out
	if err = f.watchDir(); err == nil {
		err = f.resume(same)
	}
	if err != nil {
		f.release()
	}
	return err
}

// resume continues the last follower's work: at the saved position, or else after the last entry of the CRI log. same
// says that the CRI log is the file of the saved position.
func (f *follower) resume(same bool) error {
	switch {
	case f.source.Resume == nil && !f.source.Started:
		f.out.size = f.out.end // another writer's content stays
	case f.source.Resume == nil:
		if err := f.searchOutput(0); err != nil {
			return err
		}
	default:
		at, found, err := f.goTo(f.at)
		if err != nil {
			return err
		}
		if found && same {
			return nil // the content after the position is compared
		}
		if err := f.searchOutput(at); err != nil {
			return err
		}
	}
	f.save()
	return nil
}

// goTo opens the engine's file of a position and returns the time of the record that ends there, 0 without one. found
// is false if the engine has dropped or emptied the file. Then there is a gap after the end of the CRI log, unless the
// remaining files have the log's last entry.
func (f *follower) goTo(at checkpoint.LogPosition) (unixNano int64, found bool, err error) {
	if at.Inode == 0 {
		return 0, true, nil // the engine had no file yet
	}
	file, g, err := openGeneration(f.source.Path, withInode(at.Inode))
	if err != nil {
		return 0, false, err
	}
	if file != nil && !isSame(file, at) {
		file.Close() // only looked at
		file = nil
	}
	if file == nil {
		f.openGap()
		return 0, false, nil
	}
	if at.Offset == 0 {
		f.copy.use(file, g, 0, 0)
		return 0, true, nil
	}
	if last, ok := f.copy.format.last(file, at.Offset); ok && (at.Time == 0 || at.Time == last.unixNano) {
		f.copy.use(file, g, at.Offset, last.unixNano)
		return last.unixNano, true, nil
	}
	f.copy.use(file, g, 0, 0)
	f.openGap()
	return 0, false, nil
}

// isSame reports whether file can be the position's file: their birth times are equal, or one is unknown. The inode is
// not enough, because file systems reuse the inode of a dropped file at once.
func isSame(file *os.File, at checkpoint.LogPosition) bool {
	born := bornAt(file)
	return born == 0 || at.Born == 0 || born == at.Born
}

// IsComplete reports whether the engine has no output of an ended container after a position. It is false if only a
// follower could find out, for example after the engine rotated its log.
func IsComplete(path string, at checkpoint.LogPosition) bool {
	file, err := os.Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) && at.Inode == 0 // the container never wrote
	}
	defer file.Close() // only looked at
	info, err := file.Stat()
	return err == nil && info.Size() == at.Offset && isFile(file, at.Inode) && isSame(file, at)
}

// searchOutput makes the follower continue after the last entry of the CRI log. If the log has no entry, the last entry
// of the rotated logs counts. Entries up to the last entry are skipped. since is the time of the record before the
// follower's place in the engine's file, 0 without one. If the last entry is not younger than since, there is nothing
// to skip.
func (f *follower) searchOutput(since int64) error {
	p := f.out.search()
	if p.last == 0 {
		var open string
		var err error
		if p, open, err = f.out.searchRotated(); err != nil {
			return err
		}
		if open != "" && !f.source.Ended {
			p.last-- // the pieces of a line have the same time: a piece may be written twice, but none is lost
		}
	}
	if p.last <= 0 && f.source.Resume == nil && f.source.Ended {
		p.last = math.MaxInt64
	}
	if p.last > since {
		f.copy.passing = p
	}
	return nil
}

// openGap records that the engine dropped unread output.
func (f *follower) openGap() {
	f.copy.openGap()
	f.copy.gap.rate = measureRate(f.source.Path, f.copy.format)
}
