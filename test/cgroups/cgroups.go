// Package cgroups removes the control groups that tests made.
package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const root = "/sys/fs/cgroup"

// Find returns the directories of a control group, one in each hierarchy that has it. Its name is a path below the
// root. The root itself has no name: its directories are not found.
func Find(name string) []string {
	if filepath.Join("/", name) == "/" {
		return nil
	}
	var found []string
	for _, pattern := range []string{filepath.Join(root, name), filepath.Join(root, "*", name)} {
		dirs, _ := filepath.Glob(pattern) // fails only for a bad pattern
		found = append(found, dirs...)
	}
	return found
}

// Remove removes a control group and all below it in each hierarchy. A control group in use stays, which is an error.
func Remove(name string) error {
	var errs []error
	for _, dir := range Find(name) {
		errs = append(errs, RemoveTree(dir))
	}
	return errors.Join(errs...)
}

// RemoveTree is Remove for the directory of a control group in one hierarchy.
func RemoveTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has vanished, or was removed by another name of its hierarchy
	}
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, RemoveTree(filepath.Join(dir, entry.Name())))
		}
	}
	if failed := syscall.Rmdir(dir); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove cgroup %s: %w", dir, failed))
	}
	return err
}
