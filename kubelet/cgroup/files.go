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

// files is the tree for the driver cgroupfs, with cgroup v1 or v2.
type files struct {
	unified bool
	// hierarchies are the root directories of the hierarchies. cgroup v2 has one.
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
		// Controllers that share a hierarchy may be links to its directory.
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
		// Only hierarchies with a limit's controller get the cgroup. The runtime makes it in the other hierarchies.
		for file, value := range v1Values(l) {
			if !controls(hierarchy, file) {
				continue
			}
			dir := filepath.Join(hierarchy, n.cgroupfs())
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if value != 0 {
				if err := put(dir, file, v1Amount(file, value)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (f *files) close() {}

// has reports whether the cgroup exists in each hierarchy where ensure makes it.
func (f *files) has(n name) bool {
	return !slices.ContainsFunc(f.hierarchies, func(hierarchy string) bool {
		return (f.unified || limited(hierarchy)) && !isDir(filepath.Join(hierarchy, n.cgroupfs()))
	})
}

// limited reports whether a hierarchy of cgroup v1 has the controller of any limit.
func limited(hierarchy string) bool {
	for file := range v1Values(limits{}) {
		if controls(hierarchy, file) {
			return true
		}
	}
	return false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// controls reports whether a hierarchy of cgroup v1 has the file's controller. It looks at the hierarchy's name,
// because the root cgroup lacks some files.
func controls(hierarchy, file string) bool {
	controller, _, _ := strings.Cut(file, ".")
	return slices.Contains(strings.Split(filepath.Base(hierarchy), ","), controller)
}

// v1Values returns the limits by file of cgroup v1. Unset limits are included, because ensure makes the cgroup in the
// hierarchy of each file.
func v1Values(l limits) map[string]int64 {
	return map[string]int64{"cpu.shares": l.shares, "cpu.cfs_quota_us": l.quota, "memory.limit_in_bytes": l.memory,
		"pids.max": l.pids}
}

func (f *files) ensureUnified(n name, l limits) error {
	dir := f.hierarchies[0]
	for _, element := range n {
		if err := delegate(dir); err != nil {
			return err
		}
		dir = filepath.Join(dir, element)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	values := map[string]string{}
	if l.shares > 0 {
		values["cpu.weight"] = strconv.FormatInt(weight(l.shares), 10)
	}
	for file, value := range map[string]int64{"cpu.max": l.quota, "memory.max": l.memory, "pids.max": l.pids} {
		// Without the controller there is no file, and no limit to remove.
		if _, err := os.Stat(filepath.Join(dir, file)); value > 0 || value == noLimit && err == nil {
			values[file] = amount(value)
		}
	}
	if quota, ok := values["cpu.max"]; ok {
		values["cpu.max"] = fmt.Sprintf("%s %d", quota, Period)
	}
	for file, value := range values {
		if err := put(dir, file, value); err != nil {
			return err
		}
	}
	return delegate(dir)
}

// v1Amount formats a limit for cgroup v1.
func v1Amount(file string, limit int64) string {
	if file == "pids.max" {
		return amount(limit)
	}
	return strconv.FormatInt(limit, 10) // -1 means no limit
}

// amount formats a limit for cgroup v2.
func amount(limit int64) string {
	if limit == noLimit {
		return "max"
	}
	return strconv.FormatInt(limit, 10)
}

// delegate enables all of a cgroup's controllers for its children.
func delegate(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	given, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(have)) {
		if slices.Contains(strings.Fields(string(given)), controller) {
			continue
		}
		if err := put(dir, "cgroup.subtree_control", "+"+controller); err != nil {
			return err
		}
	}
	return nil
}

// put writes a value to an existing file.
func put(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
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
		errs = append(errs, removeDir(ctx, filepath.Join(hierarchy, n.cgroupfs())))
	}
	return errors.Join(errs...)
}

func (f *files) prune(_ context.Context, n name) error {
	var errs []error
	for _, hierarchy := range f.hierarchies {
		err := unix.Rmdir(filepath.Join(hierarchy, n.cgroupfs()))
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBUSY) &&
			!errors.Is(err, unix.ENOTEMPTY) {
			errs = append(errs, fmt.Errorf("remove the cgroup %s: %w", n.cgroupfs(), err))
		}
	}
	return errors.Join(errs...)
}

const (
	// removeTimeout bounds the wait for processes to end after SIGKILL. removePoll is the period of the check.
	removeTimeout = 5 * time.Second
	removePoll    = 20 * time.Millisecond
)

// removeDir removes a cgroup and everything below it, and kills its processes.
func removeDir(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		err := removeEmpty(dir)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if err := killAll(dir); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(removePoll):
		}
	}
}

// dirs returns the cgroup and all cgroups below it, parents first. It returns none if the cgroup does not exist.
func dirs(top string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the cgroup was removed meanwhile
		}
		if err == nil && entry.IsDir() {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

func removeEmpty(top string) error {
	found, err := dirs(top)
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(found) {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
		}
	}
	return nil
}

func killAll(top string) error {
	found, err := dirs(top)
	if err != nil {
		return err
	}
	for _, dir := range found {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // the cgroup is gone
		}
		for _, text := range strings.Fields(string(content)) {
			// 0 is a process of another PID namespace. kill(0) would kill our own process group.
			if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
					return err
				}
			}
		}
	}
	return nil
}
