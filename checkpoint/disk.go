package checkpoint

import (
	"errors"
	"io"
	"os"

	"github.com/criadapter/criadapter/internal/step"
)

// disk changes a store's directory. Each step that a power cut can separate from the next is a method, so that tests
// can forget unsynced changes or refuse a step. Reads do not go through it.
type disk interface {
	// createTemp creates a temporary file in dir with mode 0600.
	createTemp(dir string) (tempFile, error)
	rename(from, to string) error
	remove(path string) error
	// syncDir makes the names in dir durable.
	syncDir(dir string) error
}

// tempFile is a file that is being written.
type tempFile interface {
	io.WriteCloser
	Sync() error
	Name() string
}

// realDisk uses the operating system. Tests have other disks.
type realDisk struct{}

func (realDisk) createTemp(dir string) (tempFile, error) {
	return os.CreateTemp(dir, tempPrefix+"*") // mode 0600
}

func (realDisk) rename(from, to string) error {
	defer step.At("record: rename")()
	return os.Rename(from, to)
}

func (realDisk) remove(path string) error {
	defer step.At("record: remove")()
	return os.Remove(path)
}

func (realDisk) syncDir(dir string) error { return syncDir(dir) }

// writeTemp writes content to a new temporary file of dir, durable and with mode 0600, and returns its path. On an
// error it leaves no file.
func writeTemp(d disk, dir string, content []byte) (path string, err error) {
	defer step.At("record: write")()
	f, err := d.createTemp(dir)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			f.Close()
			err = errors.Join(err, d.remove(f.Name()))
		}
	}()
	if _, err := f.Write(content); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	// Some file systems report a failed write only here.
	if err := f.Close(); err != nil {
		return "", err
	}
	return f.Name(), nil
}

// syncDir makes the names in dir durable. Without it, a power cut can undo a rename or a removal.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
