// Package jsonfile keeps a value in a file of the root directory, as JSON that a person can read.
package jsonfile

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Read reads the value. It reports false for a missing file, and leaves the value alone.
func Read(path string, value any) (found bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(raw, value)
}

// Write replaces the file. Only the file's owner may read it. After a crash it has the old or the new value.
func Write(path string, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, raw, 0o600, renameio.WithTempDir(filepath.Dir(path)))
}
