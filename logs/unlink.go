package logs

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/criadapter/criadapter/checkpoint"
)

// A log that another shim has linked to the engine's json-file continues in the CRI format. A new file replaces the
// link, and a follower fills it. The follower begins before the end of the engine's files, as far back as the caller
// wants history.

// alignWindow bounds the search for a whole line before the follower's position, in bytes.
const alignWindow = maxRecord

// Unlinked is a new CRI log that has not replaced the link yet. Save its Position first, then Commit. If the process
// dies in between, the link is still there, or the log continues from the saved position.
type Unlinked struct {
	// Position is the position from which a follower fills the log.
	Position checkpoint.LogPosition

	root, path string
}

// newSuffix ends the name of the hidden log that replaces a link.
const newSuffix = ".new"

// LinkedTo reports whether the log path is a link to the engine's file.
func LinkedTo(enginePath, logPath string) bool {
	target, err := os.Readlink(logPath)
	return err == nil && target == enginePath
}

// EngineHistory is the size of a container's output in the engine's json-file, in bytes, without compressed
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

// Unlink prepares an empty CRI log beside a link to the engine's json-file. A follower fills the log with the last
// history bytes of the engine's files, plus the beginning of the first line.
func Unlink(enginePath, root, logPath string, history int64) (_ *Unlinked, err error) {
	u := &Unlinked{root: root, path: logPath}
	if u.Position, err = positionBefore(enginePath, history); err != nil {
		return nil, fmt.Errorf("looking for the history of the engine's log: %w", err)
	}
	top, name, err := openRoot(root, logPath)
	if err != nil {
		return nil, err
	}
	defer top.Close() // only names are changed
	fresh := hidden(name, newSuffix)
	if err := top.Remove(fresh); ignoreNotExist(err) != nil {
		return nil, fmt.Errorf("removing the leftover of an unfinished log in %s: %w", top.Name(), err)
	}
	file, err := top.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, fmt.Errorf("making the container's log in %s: %w", top.Name(), err)
	}
	defer file.Close() // empty
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the container's log: %w", err), u.Discard())
	}
	u.Position.OutputInode = inodeOf(info)
	return u, nil
}

// Commit replaces the link with the new log.
func (u *Unlinked) Commit() error {
	top, name, err := openRoot(u.root, u.path)
	if err != nil {
		return fmt.Errorf("replacing the link of the log: %w", err)
	}
	defer top.Close() // only names are changed
	if err := top.Rename(hidden(name, newSuffix), name); err != nil {
		return errors.Join(fmt.Errorf("replacing the link of the log in %s: %w", top.Name(), err), u.Discard())
	}
	return nil
}

// Discard removes the new log.
func (u *Unlinked) Discard() error {
	top, name, err := openRoot(u.root, u.path)
	if err == nil {
		defer top.Close() // only names are changed
		err = top.Remove(hidden(name, newSuffix))
	}
	if ignoreNotExist(err) != nil {
		return fmt.Errorf("removing the unfinished log: %w", err)
	}
	return nil
}

// Relink undoes Unlink. The log at the path, which a follower has written, gets the name of a rotated log. A link to
// the engine's json-file replaces it. An existing link stays.
func Relink(enginePath, root, logPath string) error {
	if LinkedTo(enginePath, logPath) {
		return nil
	}
	top, name, err := openRoot(root, logPath)
	if err != nil {
		return err
	}
	defer top.Close() // only names are changed
	if err := rotateNow(top, name); ignoreNotExist(err) != nil {
		return fmt.Errorf("renaming the container's log in %s: %w", top.Name(), err)
	}
	return putLink(top, enginePath, name)
}

// positionBefore returns the position that is about history bytes before the end of the engine's files.
func positionBefore(enginePath string, history int64) (checkpoint.LogPosition, error) {
	var offset int64
	file, g, err := openGeneration(enginePath, func(list []generation) *generation {
		var chosen *generation
		chosen, offset = placeBefore(enginePath, list, history)
		return chosen
	})
	if err != nil || file == nil {
		return checkpoint.LogPosition{}, err
	}
	defer file.Close() // only read
	place, last := lineEnd(file, offset)
	return checkpoint.LogPosition{Inode: g.inode, Born: bornAt(file), Offset: place, Time: last}, nil
}

// placeBefore returns the place that is history bytes before the end of the engine's files, as a generation and an
// offset in it. If the files have fewer bytes, the place is the beginning of the oldest file.
func placeBefore(enginePath string, list []generation, history int64) (chosen *generation, offset int64) {
	for i := range list { // the newest first
		size := sizeOf(enginePath, list[i])
		if size >= history || i == len(list)-1 {
			return &list[i], max(0, size-history)
		}
		history -= size
	}
	return nil, 0
}

func sizeOf(enginePath string, g generation) int64 {
	info, err := os.Stat(generationPath(enginePath, g.number))
	if err != nil {
		return 0 // rotated meanwhile: the caller makes another list
	}
	return info.Size()
}

// lineEnd looks for the last record before offset that completes a line. It returns the record's end and time. Without
// such a record within alignWindow, it returns the last record, and without any record the file's beginning.
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
			break // the record may not be whole
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
