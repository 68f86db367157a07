package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
)

// Modes of what is made for the CRI log: the folder as the kubelet makes its
// own, the file readable for the group of log collectors.
const (
	folderMode = 0o755
	fileMode   = 0o640
)

// output is the CRI log of one container.
type output struct {
	path  string
	file  *os.File
	inode uint64
	// size is how much of the file is ours and whole: what earlier writers
	// left and the batches that were written completely.
	size int64
}

// openOutput opens the CRI log to append to it and makes it, and its folder,
// when missing. What is at the path and is not a plain file is refused: a
// symbolic link would let whoever may write to the folder redirect the output,
// a pipe would block.
func openOutput(path string) (*output, error) {
	o := &output{path: path}
	if err := o.open(); err != nil {
		return nil, err
	}
	return o, nil
}

// unknownSize stands for the size of the CRI log at a position when its file is
// gone.
const unknownSize = -1

// resumeOutput opens the CRI log of a position and returns its size there, or
// unknownSize. The kubelet may have renamed the file: it is written on until a
// Reopen, as if nothing had happened in between.
func resumeOutput(path string, at checkpoint.LogPosition) (o *output, size int64, err error) {
	info, err := os.Lstat(path)
	if at.OutputInode == 0 || err == nil && inodeOf(info) == at.OutputInode {
		o, err = openOutput(path)
		return o, at.OutputSize, err
	}
	reopened := err == nil
	renamed, err := findRenamed(path, at.OutputInode)
	if err != nil {
		return nil, 0, err
	}
	if renamed == "" {
		o, err = openOutput(path)
		return o, unknownSize, err
	}
	o = &output{path: path}
	if err := o.openAt(renamed); err != nil || !reopened {
		return o, at.OutputSize, err
	}
	// The position was not saved any more after a Reopen: whatever the new file
	// holds comes behind it.
	if err := errors.Join(o.cut(at.OutputSize), o.reopen()); err != nil {
		o.file.Close()
		return nil, 0, err
	}
	return o, 0, nil
}

// rotatedLogs returns the plain files whose names are the log's with something
// appended, as the kubelet's rotation does: the time, so the newest is the last.
func rotatedLogs(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for a renamed log: %w", err)
	}
	var found []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), base+".") && entry.Type().IsRegular() {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	return found, nil
}

// findRenamed returns the path of the rotated log of that inode, empty when
// there is none.
func findRenamed(path string, inode uint64) (string, error) {
	rotated, err := rotatedLogs(path)
	for _, path := range rotated {
		if info, err := os.Lstat(path); err == nil && inodeOf(info) == inode {
			return path, nil
		}
	}
	return "", err
}

func (o *output) open() error { return o.openAt(o.path) }

// openAt opens the file at path, which a later reopen replaces by the one at
// o.path. Its lock keeps another server on the same engine from writing the log,
// too; the kernel gives it back when this one ends.
func (o *output) openAt(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return fmt.Errorf("making the log folder: %w", err)
	}
	const flags = os.O_RDWR | os.O_CREATE | os.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK
	file, err := os.OpenFile(path, flags, fileMode)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return notPlain(path)
	}
	if err != nil {
		return fmt.Errorf("opening the container's log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return fmt.Errorf("opening the container's log: %w", err)
	}
	if !info.Mode().IsRegular() {
		file.Close()
		return notPlain(path)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return fmt.Errorf("another process writes the log %s (%w), stop it: %w", path, err, errdefs.ErrFailedPrecondition)
	}
	o.file, o.inode, o.size = file, inodeOf(info), info.Size()
	return nil
}

func notPlain(path string) error {
	return fmt.Errorf("the log path %s is taken by something that is not a plain file, remove it: %w", path, errdefs.ErrFailedPrecondition)
}

// cut takes back what was written beyond size. A file that is shorter stays as
// it is: what is missing was lost with the machine's page cache.
func (o *output) cut(size int64) error {
	if size == unknownSize || o.size <= size {
		return nil
	}
	if err := o.file.Truncate(size); err != nil {
		return fmt.Errorf("taking back unfinished output: %w", err)
	}
	o.size = size
	return nil
}

// cutToLine takes back the beginning of a line that a killed writer left.
func (o *output) cutToLine() error {
	tail := make([]byte, min(o.size, maxRecord))
	if _, err := o.file.ReadAt(tail, o.size-int64(len(tail))); err != nil {
		return fmt.Errorf("reading the end of the container's log: %w", err)
	}
	half := len(tail) - (bytes.LastIndexByte(tail, '\n') + 1)
	return o.cut(o.size - int64(half))
}

// lastRotatedTime is lastTime for the log that was rotated last and is not
// compressed yet.
func (o *output) lastRotatedTime() (unixNano int64, open string, err error) {
	rotated, err := rotatedLogs(o.path)
	for _, path := range slices.Backward(rotated) {
		file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // removed meanwhile
		}
		old := output{path: path, file: file}
		if info, err := file.Stat(); err == nil {
			old.size = info.Size()
			unixNano, open = old.lastTime()
		}
		file.Close() // only read
		if unixNano != 0 {
			return unixNano, open, nil
		}
	}
	return 0, "", err
}

// lastTime returns the time of the log's last entry, 0 when there is none, and
// its stream if it is an unfinished line.
func (o *output) lastTime() (unixNano int64, open string) {
	fields := bytes.SplitN(o.lastLine(), []byte{' '}, 4)
	if len(fields) < 3 {
		return 0, ""
	}
	at, err := time.Parse(time.RFC3339Nano, string(fields[0]))
	if err != nil {
		return 0, ""
	}
	if stream, known := knownStream(fields[1]); known && string(fields[2]) == "P" {
		open = stream
	}
	return at.UnixNano(), open
}

// lastLine returns the last whole line of the log without its line feed, empty
// when there is none.
func (o *output) lastLine() []byte {
	tail := make([]byte, min(o.size, maxRecord))
	if _, err := o.file.ReadAt(tail, o.size-int64(len(tail))); err != nil {
		return nil
	}
	body, whole := bytes.CutSuffix(tail, []byte{'\n'})
	if !whole {
		return nil
	}
	return body[bytes.LastIndexByte(body, '\n')+1:]
}

// mayEndWith reports whether the first size bytes of the log end with text. It
// is true as well when nobody can tell: the log has been reopened or cut since.
func (o *output) mayEndWith(text []byte, size int64) bool {
	if size < int64(len(text)) || size > o.size {
		return true
	}
	end := make([]byte, len(text))
	_, err := o.file.ReadAt(end, size-int64(len(text)))
	return err == nil && bytes.Equal(end, text)
}

// write appends one batch, whole or, on an error, not at all. If taking back a
// part of it fails as well, the next write does it first.
func (o *output) write(batch []byte) error {
	if err := o.repair(); err != nil {
		return err
	}
	if _, err := o.file.Write(batch); err != nil {
		return errors.Join(fmt.Errorf("writing the container's log: %w", err), o.repair())
	}
	o.size += int64(len(batch))
	return nil
}

// repair takes back what a failed write left behind size; nobody else writes to
// the file. Someone may have emptied it, though, to make room on the disk.
func (o *output) repair() error {
	info, err := o.file.Stat()
	if err != nil {
		return fmt.Errorf("looking at the container's log: %w", err)
	}
	if info.Size() <= o.size {
		o.size = info.Size()
		return nil
	}
	if err := o.file.Truncate(o.size); err != nil {
		return fmt.Errorf("taking back unfinished output: %w", err)
	}
	return nil
}

// reopen lets the next write go to a file that is at the path now, made when
// there is none. On an error the old file stays in use.
func (o *output) reopen() error {
	if info, err := os.Lstat(o.path); err == nil && inodeOf(info) == o.inode {
		return nil // not renamed
	}
	old := o.file
	if err := o.open(); err != nil {
		return err
	}
	old.Close() // every write to it has been answered
	return nil
}
