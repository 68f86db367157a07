package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
)

// A log that another shim has linked to the engine's json-file goes on in the CRI format: a new file takes the link's
// place, and a follower fills it from a position in the engine's files that lies as far back as history is wanted.

// alignWindow is how far in front of that place a whole line is looked for, in bytes.
const alignWindow = maxRecord

// Unlinked is a new CRI log that has not taken the place of the link yet. Save its Position first, then Commit: whatever
// moment the process dies at, the link is still there, or the log goes on from the saved position.
type Unlinked struct {
	// Position is from where a follower has to fill the log.
	Position checkpoint.LogPosition
	// history is how many bytes of the engine's files lie behind it.
	history int64

	fresh, path string
}

// LinkedTo reports whether the log path is a link to the engine's file.
func LinkedTo(enginePath, logPath string) bool {
	target, err := os.Readlink(logPath)
	return err == nil && target == enginePath
}

// EngineHistory is how many bytes the engine keeps of a container's output in its json-file, without compressed
// generations.
func EngineHistory(enginePath string) (int64, error) {
	list, err := generations(enginePath)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, g := range list {
		sum += sizeOf(enginePath, g)
	}
	return sum, nil
}

// Unlink prepares an empty CRI log beside a link to the engine's json-file. Its history is at most that many bytes and
// the line in which they begin.
func Unlink(enginePath, logPath string, history int64) (_ *Unlinked, err error) {
	u := &Unlinked{path: logPath, fresh: freshPath(logPath)}
	if u.Position, u.history, err = positionBefore(enginePath, history); err != nil {
		return nil, fmt.Errorf("looking for the history of the engine's log: %w", err)
	}
	if err := os.Remove(u.fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the leftover of an unfinished log: %w", err)
	}
	file, err := os.OpenFile(u.fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return nil, fmt.Errorf("making the container's log: %w", err)
	}
	defer file.Close() // empty
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the container's log: %w", err), u.Discard())
	}
	u.Position.OutputInode = inodeOf(info)
	return u, nil
}

// Commit puts the new log in the link's place.
func (u *Unlinked) Commit() error {
	if err := os.Rename(u.fresh, u.path); err != nil {
		return errors.Join(fmt.Errorf("replacing the link of the log: %w", err), u.Discard())
	}
	return nil
}

// Discard gives the new log up.
func (u *Unlinked) Discard() error {
	if err := os.Remove(u.fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the unfinished log: %w", err)
	}
	return nil
}

// Relink is the way back: the log at the path, which a follower has written, gets the name of a rotated one, and a link
// to the engine's json-file takes its place. A link that is there stays.
func Relink(enginePath, logPath string) error {
	if LinkedTo(enginePath, logPath) {
		return nil
	}
	if err := os.Rename(logPath, freeName(logPath)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("renaming the container's log: %w", err)
	}
	return putLink(enginePath, logPath)
}

// freshPath is hidden, so that nobody takes it for a rotated log.
func freshPath(logPath string) string {
	dir, base := filepath.Split(logPath)
	return filepath.Join(dir, "."+base+".new")
}

// positionBefore returns a position with about so many bytes behind it in the engine's files, and how many these are.
func positionBefore(enginePath string, history int64) (at checkpoint.LogPosition, behind int64, err error) {
	var offset int64
	file, g, err := openGeneration(enginePath, func(list []generation) *generation {
		var chosen *generation
		chosen, offset, behind = placeBefore(enginePath, list, history)
		return chosen
	})
	if err != nil || file == nil {
		return checkpoint.LogPosition{}, 0, err
	}
	defer file.Close() // only read
	place, last := lineEnd(file, offset)
	return checkpoint.LogPosition{Inode: g.inode, Born: bornAt(file), Offset: place, Time: last}, behind + offset - place, nil
}

// placeBefore returns the generation and the offset in it that have so many bytes behind them, or all that there are.
func placeBefore(enginePath string, list []generation, history int64) (chosen *generation, offset, behind int64) {
	for i := range list { // the newest first
		size := sizeOf(enginePath, list[i])
		if behind+size >= history || i == len(list)-1 {
			rest := min(size, history-behind)
			return &list[i], size - rest, behind + rest
		}
		behind += size
	}
	return nil, 0, 0
}

func sizeOf(enginePath string, g generation) int64 {
	info, err := os.Stat(generationPath(enginePath, g.number))
	if err != nil {
		return 0 // rotated meanwhile: the list is made anew
	}
	return info.Size()
}

// lineEnd returns where the last record in front of an offset ends that is a whole line or the end of one, and its time;
// where there is none near, the last record whatever it is, and else the file's beginning.
func lineEnd(file *os.File, offset int64) (place, unixNano int64) {
	from := max(0, offset-alignWindow)
	window := make([]byte, offset-from)
	if _, err := file.ReadAt(window, from); err != nil {
		return 0, 0
	}
	var record entry
	for end := bytes.LastIndexByte(window, '\n') + 1; end > 0; {
		begin := bytes.LastIndexByte(window[:end-1], '\n') + 1
		if begin == 0 && from > 0 {
			break // it may not be whole
		}
		if n, err := (jsonFormat{}).decode(window[begin:end], &record); err == nil && n == end-begin {
			if !record.partial {
				return from + int64(end), record.unixNano
			}
			if place == 0 {
				place, unixNano = from+int64(end), record.unixNano
			}
		}
		end = begin
	}
	return place, unixNano
}
