// Package cache keeps built programs and image archives outside of the source tree, so that a fresh clone finds them
// ready. An entry is a directory named after everything that decides its content. It is complete from the moment it
// exists, and never changes.
package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Dir returns the cache directory, $XDG_CACHE_HOME/criadapter or ~/.cache/criadapter. It need not exist yet.
func Dir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for a cache, set XDG_CACHE_HOME: %w", err)
	}
	return filepath.Join(base, "criadapter"), nil
}

// Key joins the parts that decide an entry's content (module@version, platform, flags) to a name for one directory. The
// name has none of the separators of lists such as PATH, because such a list may contain an entry.
func Key(parts ...string) string {
	return strings.NewReplacer("/", "-", " ", "", ",", "_", ":", "_").Replace(strings.Join(parts, "_"))
}

// Has says whether there is an entry named key. If there is, Fill returns at once.
func Has(key string) (bool, error) {
	base, err := Dir()
	if err != nil {
		return false, err
	}
	_, err = os.Stat(filepath.Join(base, key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Fill returns the directory of the entry named key. If there is no such entry, fill writes its content to an empty
// directory beside it, and Fill renames that directory. Two processes that fill one entry at the same time both do the
// work, and one result remains. A killed process leaves no entry.
func Fill(ctx context.Context, key string, fill func(ctx context.Context, dir string) error) (string, error) {
	base, err := Dir()
	if err != nil {
		return "", err
	}
	entry := filepath.Join(base, key)
	if _, err := os.Stat(entry); err == nil {
		return entry, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(base, ".new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) // gone already when the rename succeeded
	if err := fill(ctx, dir); err != nil {
		return "", fmt.Errorf("make %s: %w", key, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(dir, entry); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return entry, nil
}
