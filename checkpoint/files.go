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
	// fileSuffix is the suffix of every record's file.
	fileSuffix = ".json"
	// tempPrefix is the prefix of every temporary file. A sandbox id cannot begin with a dot, so no record has such a
	// name.
	tempPrefix = ".tmp-"
	// maxIDLength keeps each file name made from an id below Linux's limit of 255 bytes, even with the time stamp that
	// the quarantine adds.
	maxIDLength = 200
)

// validateID checks that a sandbox id is valid as a file name: letters, digits, "_", "." and "-", a letter or digit
// first. The engine's ids are 64 hex digits. It refuses any id that could name another directory.
func validateID(sandboxID string) error {
	if sandboxID == "" {
		return fmt.Errorf("record.sandboxID is empty: %w", errdefs.ErrInvalidArgument)
	}
	if len(sandboxID) > maxIDLength {
		return fmt.Errorf("record.sandboxID has %d bytes, at most %d are possible: %w", len(sandboxID), maxIDLength,
			errdefs.ErrInvalidArgument)
	}
	for i, c := range []byte(sandboxID) {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '_' && c != '.' && c != '-') {
			return fmt.Errorf(
				"record.sandboxID %q has the character %q at byte %d, only letters, digits and (not first) "+
					"\"_.-\" are possible: %w",
				sandboxID, c, i, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// idOfFile returns the sandbox id in a file's name. ok is false if the name is not a record's.
func idOfFile(name string) (sandboxID string, ok bool) {
	sandboxID, ok = strings.CutSuffix(name, fileSuffix)
	return sandboxID, ok && validateID(sandboxID) == nil
}

// makeDir makes dir, durably and with mode 0700, because configs have secrets.
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

// makeParents is os.MkdirAll that also fsyncs the parent of every new directory. Otherwise a power cut could take a new
// directory with its records.
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

// sweep removes the temporary files that a crash left in dir. They were never renamed, so no Save that wrote one has
// succeeded.
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
