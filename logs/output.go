package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/step"
)

// Modes of what is made for the CRI log: the directory as the kubelet makes its
// own, the file readable for the group of log collectors.
const (
	dirMode  = 0o755
	fileMode = 0o640
)

// output is the CRI log of one container.
type output struct {
	// root is Source.Root.
	root, path string

	file  *os.File
	inode uint64
	// end is how long the file is: what earlier writers left and the batches that were written completely.
	end int64
	// size is the place of the next entry: end, or less as long as that and what follows it may be there already, see
	// compare.
	size int64
	// searched says that the place was found by the time of the last entry.
	searched bool
}

// openOutput opens the CRI log to append to it and makes it, and its directory, when missing. What is at the path and
// is not a plain file is refused: a symbolic link would let whoever may write to the directory redirect the output, a
// pipe would block. Nor does the way from root to it leave root.
func openOutput(root, path string) (*output, error) {
	o := &output{root: root, path: path}
	if err := o.openAt(path); err != nil {
		return nil, err
	}
	return o, nil
}

// resumeOutput opens the CRI log of a position. same reports whether it is the one of the position, as far as its inode
// and size tell; its place is that of the position then. The kubelet may have renamed the file: it is written on until
// a Reopen, as if nothing had happened in between. Where there is another one at the path, that was reopened already.
func resumeOutput(root, path string, at checkpoint.LogPosition) (o *output, same bool, err error) {
	o, place := &output{root: root, path: path}, path
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && at.OutputInode != 0 {
		renamed, err := findRenamed(path, at.OutputInode)
		if err != nil {
			return nil, false, err
		}
		place = cmp.Or(renamed, path)
	}
	if err := o.openAt(place); err != nil {
		return nil, false, err
	}
	same = at.OutputSize <= o.end && (at.OutputInode == 0 || at.OutputInode == o.inode)
	if same {
		o.size = at.OutputSize
	}
	return o, same, nil
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

// findRenamed returns the path of the rotated log of that inode, empty when there is none.
func findRenamed(path string, inode uint64) (string, error) {
	rotated, err := rotatedLogs(path)
	for _, path := range rotated {
		if info, err := os.Lstat(path); err == nil && inodeOf(info) == inode {
			return path, nil
		}
	}
	return "", err
}

// openAt opens the file at path, which a later reopen replaces by the one at o.path. Its lock keeps another server on
// the same engine from writing the log, too; the kernel gives it back when this one ends.
func (o *output) openAt(path string) error {
	defer step.At("log: open")()
	file, err := openBeneath(o.root, path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK)
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
	o.file, o.inode, o.size, o.end = file, inodeOf(info), info.Size(), info.Size()
	o.searched = false
	return nil
}

func notPlain(path string) error {
	return fmt.Errorf("the log path %s is taken by something that is not a plain file, remove it: %w", path, errdefs.ErrFailedPrecondition)
}

// cut takes back what is behind a place.
func (o *output) cut(place int64) error {
	if o.end <= place {
		return nil
	}
	if err := o.file.Truncate(place); err != nil {
		return fmt.Errorf("taking back unfinished output: %w", err)
	}
	o.end = place
	return nil
}

// write appends one batch, or what of it is not there yet, whole or, on an error, not at all: then the batch is to be
// written again. If taking back a part of it fails as well, the next write does it first. It returns how many bytes were
// appended, and fails with errDiffers, see compare.
func (o *output) write(batch []byte) (appended int, err error) {
	if err := o.repair(); err != nil {
		return 0, err
	}
	place, rest, err := o.compare(batch)
	if err != nil {
		return 0, err
	}
	if len(rest) > 0 {
		if _, err := o.file.Write(rest); err != nil {
			return 0, errors.Join(fmt.Errorf("writing the container's log: %w", err), o.repair())
		}
		o.end += int64(len(rest))
		place = o.end
	}
	o.size = place
	return len(rest), nil
}

// repair takes back what a failed write left behind the end; nobody else writes to
// the file. Someone may have emptied it, though, to make room on the disk.
func (o *output) repair() error {
	info, err := o.file.Stat()
	if err != nil {
		return fmt.Errorf("looking at the container's log: %w", err)
	}
	if info.Size() > o.end {
		if err := o.file.Truncate(o.end); err != nil {
			return fmt.Errorf("taking back unfinished output: %w", err)
		}
	}
	o.end = min(o.end, info.Size())
	o.size = min(o.size, o.end)
	return nil
}

// reopen lets the next write go to a file that is at the path now, made when there is none, and reports whether that is
// another one. On an error the old file stays in use.
func (o *output) reopen() (reopened bool, err error) {
	if info, err := os.Lstat(o.path); err == nil && inodeOf(info) == o.inode {
		return false, nil // not renamed
	}
	old := o.file
	if err := o.openAt(o.path); err != nil {
		return false, err
	}
	old.Close() // every write to it has been answered
	return true, nil
}
