package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// files is the cgroup file system itself, of either version.
type files struct {
	unified bool
	// hierarchies are the folders at the top of each hierarchy. Version 2 has one.
	hierarchies []string
}

func newFiles(mount string) (*files, error) {
	if unified(mount) {
		return &files{unified: true, hierarchies: []string{mount}}, nil
	}
	entries, err := os.ReadDir(mount)
	if err != nil {
		return nil, err
	}
	f := &files{}
	for _, entry := range entries {
		// Controllers that share a hierarchy have links to it.
		real, err := filepath.EvalSymlinks(filepath.Join(mount, entry.Name()))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(real, "cgroup.procs")); err == nil && !slices.Contains(f.hierarchies, real) {
			f.hierarchies = append(f.hierarchies, real)
		}
	}
	if len(f.hierarchies) == 0 {
		return nil, fmt.Errorf("no cgroups are mounted below %s", mount)
	}
	return f, nil
}

func (f *files) spell(n name) string { return n.cgroupfs() }

func (f *files) ensure(_ context.Context, n name, l limits) error {
	if f.unified {
		return f.ensureUnified(n, l)
	}
	for _, hierarchy := range f.hierarchies {
		// The runtime makes the others: what has no limits here needs no cgroup before.
		for file, value := range v1Values(l) {
			if _, err := os.Stat(filepath.Join(hierarchy, file)); err != nil {
				continue // another controller's
			}
			folder := filepath.Join(hierarchy, n.cgroupfs())
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			if value > 0 {
				if err := put(folder, file, strconv.FormatInt(value, 10)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// v1Values are the files of version 1. All three are named for each cgroup, so that it exists in their hierarchies.
func v1Values(l limits) map[string]int64 {
	return map[string]int64{"cpu.shares": l.shares, "cpu.cfs_quota_us": l.quota, "memory.limit_in_bytes": l.memory}
}

func (f *files) ensureUnified(n name, l limits) error {
	folder := f.hierarchies[0]
	for _, element := range n {
		if err := delegate(folder); err != nil {
			return err
		}
		folder = filepath.Join(folder, element)
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	values := map[string]string{}
	if l.shares > 0 {
		values["cpu.weight"] = strconv.FormatInt(Weight(l.shares), 10)
	}
	if l.quota > 0 {
		values["cpu.max"] = fmt.Sprintf("%d %d", l.quota, Period)
	}
	if l.memory > 0 {
		values["memory.max"] = strconv.FormatInt(l.memory, 10)
	}
	for file, value := range values {
		if err := put(folder, file, value); err != nil {
			return err
		}
	}
	return delegate(folder)
}

// delegate lets the children of a cgroup use every controller that it has itself.
func delegate(folder string) error {
	have, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return err
	}
	given, err := os.ReadFile(filepath.Join(folder, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(have)) {
		if slices.Contains(strings.Fields(string(given)), controller) {
			continue
		}
		if err := put(folder, "cgroup.subtree_control", "+"+controller); err != nil {
			return err
		}
	}
	return nil
}

// put writes a value into a file that must exist.
func put(folder, file, value string) error {
	return os.WriteFile(filepath.Join(folder, file), []byte(value), 0)
}

func (f *files) children(n name) ([]string, error) {
	var found []string
	for _, hierarchy := range f.hierarchies {
		entries, err := os.ReadDir(filepath.Join(hierarchy, n.cgroupfs()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if entry.IsDir() && !slices.Contains(found, entry.Name()) {
				found = append(found, entry.Name())
			}
		}
	}
	return found, nil
}

func (f *files) remove(ctx context.Context, n name) error {
	var errs []error
	for _, hierarchy := range f.hierarchies {
		errs = append(errs, removeFolder(ctx, filepath.Join(hierarchy, n.cgroupfs())))
	}
	return errors.Join(errs...)
}

const (
	// removeTimeout is how long processes may take to die after SIGKILL, and removePoll how often it is looked.
	removeTimeout = 5 * time.Second
	removePoll    = 20 * time.Millisecond
)

// removeFolder removes a cgroup with everything below it, and kills what is in it.
func removeFolder(ctx context.Context, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		err := removeEmpty(folder)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if err := killAll(folder); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(removePoll):
		}
	}
}

// folders are the cgroup and those below it, the outer ones first; none if it does not exist.
func folders(top string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // its end came first
		}
		if err == nil && entry.IsDir() {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

func removeEmpty(top string) error {
	found, err := folders(top)
	if err != nil {
		return err
	}
	for _, folder := range slices.Backward(found) {
		if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "rmdir", Path: folder, Err: err}
		}
	}
	return nil
}

func killAll(top string) error {
	found, err := folders(top)
	if err != nil {
		return err
	}
	for _, folder := range found {
		content, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		if err != nil {
			continue // the cgroup is gone
		}
		for _, text := range strings.Fields(string(content)) {
			// 0 is a process that this namespace does not see; as an argument of kill it would be ourselves.
			if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
					return err
				}
			}
		}
	}
	return nil
}
