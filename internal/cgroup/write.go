// Package cgroup writes limits into the files of cgroups, for limits without a field in the Docker API.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/step"
)

// File is a file of a cgroup and the value to write.
type File struct {
	Path, Value string
	// Field is the client's field for this limit, for messages.
	Field string
	// Optional skips the file if this kernel does not have it.
	Optional bool
}

// Write writes files in their order. After an error it restores the files that it has written. undo restores the
// previous values and logs its failures. A cgroup that is gone is not an error, since its processes are gone, too. A
// file that this kernel does not have, or a value that it refuses, is an errdefs.ErrInvalidArgument that begins with
// the field.
func Write(ctx context.Context, files []File) (undo func(), err error) {
	var before []File
	undo = func() {
		for i := len(before) - 1; i >= 0; i-- {
			if err := before[i].write(); err != nil {
				log.G(ctx).WithError(err).WithField("file", before[i].Path).Warn("cannot restore cgroup limit")
			}
		}
	}
	for _, file := range files {
		old, err := file.replace()
		if err != nil {
			undo()
			return func() {}, fmt.Errorf("%s: %w", file.Field, err)
		}
		if old != nil {
			before = append(before, *old)
		}
	}
	return undo, nil
}

// write writes an existing file. It creates none, since only the kernel makes files of cgroups.
func (f File) write() error {
	defer step.At("cgroup: write")()
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(f.Value)
	return errors.Join(err, file.Close())
}

// replace writes the file and returns its previous value, nil if the file was skipped.
func (f File) replace() (before *File, err error) {
	old, err := os.ReadFile(f.Path)
	if err == nil {
		err = f.write()
	}
	switch {
	case err == nil:
		return &File{Path: f.Path, Value: string(old)}, nil
	case errors.Is(err, fs.ErrNotExist) && (f.Optional || gone(filepath.Dir(f.Path))), errors.Is(err, unix.ENODEV):
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("this kernel has no such cgroup file: %w: %w", err, errdefs.ErrInvalidArgument)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return nil, fmt.Errorf("the kernel refuses %q: %w: %w", f.Value, err, errdefs.ErrInvalidArgument)
	default:
		return nil, err
	}
}

func gone(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}
