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

// Modes of the CRI log. The directory's mode is like the kubelet's. The group of log collectors can read the file.
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
	// end is the length of the file: the content of earlier writers and the completely written batches.
	end int64
	// size is the place of the next entry. It equals end, or is less while the file may already have the next entries,
	// see compare.
	size int64
	// searched says that search has set size, by the time of the last entry.
	searched bool
}

// resumeOutput opens the CRI log of a position. same reports whether the opened file's inode and size fit the position.
// If they fit, the next entry goes to the place in the position. A file that the kubelet has renamed is written until a
// Reopen, unless another file is already at the path.
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

// rotatedLogs returns the plain files whose names are the log's name with a suffix. The kubelet's rotation uses the
// time as the suffix, so the newest file is the last.
func rotatedLogs(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir) // sorted by name
	if ignoreNotExist(err) != nil {
		return nil, fmt.Errorf("looking for a renamed log: %w", err)
	}
	return rotatedIn(entries, dir, base), nil
}

// rotatedIn picks the rotated logs of the log base from the entries of its directory.
func rotatedIn(entries []fs.DirEntry, dir, base string) []string {
	var found []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), base+".") && entry.Type().IsRegular() {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	return found
}

// findRenamed returns the path of the rotated log with that inode, empty if there is none.
func findRenamed(path string, inode uint64) (string, error) {
	rotated, err := rotatedLogs(path)
	for _, path := range rotated {
		if info, err := os.Lstat(path); err == nil && inodeOf(info) == inode {
			return path, nil
		}
	}
	return "", err
}

// openAt opens the file at path for appending. A later reopen replaces it with the file at o.path. openAt creates the
// log and its directory if they are missing. It refuses all files but plain ones. A symbolic link would let other
// writers of the directory redirect the output, and a pipe would block. The path from o.root to the log does not leave
// o.root. The file's lock keeps another server on the same engine from writing the log. The kernel releases the lock
// when this process ends.
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
		return fmt.Errorf("another process writes the log %s (%w), stop it: %w", path, err,
			errdefs.ErrFailedPrecondition)
	}
	o.file, o.inode, o.size, o.end = file, inodeOf(info), info.Size(), info.Size()
	o.searched = false
	return nil
}

func notPlain(path string) error {
	return fmt.Errorf("the log path %s is taken by something that is not a plain file, remove it: %w", path,
		errdefs.ErrFailedPrecondition)
}

// cut removes the content after a place.
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

// write appends the part of a batch that is not in the file yet. On an error it removes a partial write, and the caller
// writes the batch again. If the removal fails, too, the next write begins with the removal. write returns the number
// of appended bytes, and fails with errDiffers, see compare.
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

// repair removes the remains of a failed write after end. There is no other writer, but an operator may have emptied
// the file to make room on the disk.
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

// reopen continues in the file that is at the path now, and creates a missing file. It reports whether the log was
// another file before. On an error the old file stays in use.
func (o *output) reopen() (reopened bool, err error) {
	if info, err := os.Lstat(o.path); err == nil && inodeOf(info) == o.inode {
		return false, nil // not renamed
	}
	old := o.file
	if err := o.openAt(o.path); err != nil {
		return false, err
	}
	old.Close() // each write has returned its own error
	return true, nil
}
