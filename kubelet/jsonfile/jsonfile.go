// Package jsonfile keeps a value in a file of the root directory, as JSON that a person can read.
package jsonfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Read reads the value. It reports false for a missing file, and leaves the value alone. It also leaves the value alone
// if the file is null, because a nil map could not be written.
func Read(path string, value any) (found bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if string(bytes.TrimSpace(raw)) == "null" {
		return true, nil
	}
	return true, json.Unmarshal(raw, value)
}

// Advise adds a file's path and advice to an error of its content. It returns an error of the file system unchanged:
// the error already names the path, and advice on the content would be wrong.
func Advise(path string, err error, advice string) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return err
	}
	return fmt.Errorf("%s: %w; %s", path, err, advice)
}

// ReadOrMove is Read, but renames an unreadable file to *.corrupt, so that Write does not overwrite it.
func ReadOrMove(path string, value any) (found bool, err error) {
	if found, err = Read(path, value); err != nil {
		err = errors.Join(fmt.Errorf("%s: %w", path, err), os.Rename(path, path+".corrupt"))
	}
	return found, err
}

// Save is Write. Its error begins with what, a description of the content.
func Save(path, what string, value any) error {
	if err := Write(path, value); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ownerOnly is the mode of all files.
const ownerOnly = 0o600

// Write replaces the file, unless its content is the same. Only the file's owner may read it. After a crash it has the
// old or the new value.
func Write(path string, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm() != ownerOnly {
		if err := os.Chmod(path, ownerOnly); err != nil { // renameio would keep the old file's mode
			return err
		}
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, raw) {
		return nil
	}
	return renameio.WriteFile(path, raw, ownerOnly, renameio.WithTempDir(filepath.Dir(path)))
}
