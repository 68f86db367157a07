package realkubelet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// cgroupMount is the directory of the hierarchies.
const cgroupMount = "/sys/fs/cgroup"

// MakeCgroups makes a cgroup in every hierarchy, because the real kubelet expects its cgroup root to exist. On cgroup
// v1, a cgroup of the cpuset controller needs processors and memory nodes before it can have a process.
func MakeCgroups(path string) error {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return os.MkdirAll(filepath.Join(cgroupMount, path), 0o755)
	}
	hierarchies, err := os.ReadDir(cgroupMount)
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if !hierarchy.IsDir() { // cpu may be a link to cpu,cpuacct
			continue
		}
		dir := filepath.Join(cgroupMount, hierarchy.Name())
		for part := range strings.SplitSeq(path, "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := inheritCpuset(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func inheritCpuset(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a hierarchy without cpuset
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(value)) != "" {
			continue
		}
		if value, err = os.ReadFile(filepath.Join(parent, name)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}
