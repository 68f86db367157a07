package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
)

const (
	// fileSuffix ends the name of every record's file.
	fileSuffix = ".json"
	// tempPrefix begins the name of every temporary file. A sandbox id cannot
	// begin with a dot, so no record's file is ever taken for one.
	tempPrefix = ".tmp-"
	// maxIDLength keeps every name made from an id, also in the quarantine
	// with its time stamp, below the 255 bytes of a Linux file name.
	maxIDLength = 200
)

// validateID checks that a sandbox id can be used as a file name: letters, digits, "_", "." and "-", a letter or digit
// first. The engine's ids are 64 hex digits; anything that could name another directory is refused.
func validateID(sandboxID string) error {
	if sandboxID == "" {
		return fmt.Errorf("record.sandboxID is empty: %w", errdefs.ErrInvalidArgument)
	}
	if len(sandboxID) > maxIDLength {
		return fmt.Errorf("record.sandboxID has %d bytes, at most %d are possible: %w", len(sandboxID), maxIDLength, errdefs.ErrInvalidArgument)
	}
	for i, c := range []byte(sandboxID) {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '_' && c != '.' && c != '-') {
			return fmt.Errorf("record.sandboxID %q has the character %q at byte %d, only letters, digits and (not first) \"_.-\" are possible: %w",
				sandboxID, c, i, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// idOfFile returns the sandbox id that a file of the directory belongs to; ok is
// false for a file that is not a record's.
func idOfFile(name string) (sandboxID string, ok bool) {
	sandboxID, ok = strings.CutSuffix(name, fileSuffix)
	return sandboxID, ok && validateID(sandboxID) == nil
}

// makeDir makes dir, durably, for its owner alone: configs hold secrets.
func makeDir(dir string) error {
	if err := makeParents(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() == 0o700 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// makeParents is os.MkdirAll that also fsyncs the parent of every directory it
// makes, so that a power cut cannot take a new directory and the records in it.
func makeParents(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory: %w", dir, errdefs.ErrFailedPrecondition)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeParents(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// sweep removes the temporary files that a crash left in dir. They were never
// renamed, so no caller was ever told that they are saved.
func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
