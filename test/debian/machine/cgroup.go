package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const cgroupRoot = "/sys/fs/cgroup"

// makeCgroups makes the machine's cgroup in every hierarchy, and returns the names of the cgroup v1 hierarchies.
func (m *Machine) makeCgroups() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return nil, os.MkdirAll(filepath.Join(cgroupRoot, m.cgroup), 0o755)
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var controllers []string
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := os.MkdirAll(filepath.Join(cgroupRoot, entry.Name(), m.cgroup), 0o755); err != nil {
			return nil, err
		}
		if entry.Name() != "unified" { // the cgroup v2 hierarchy
			controllers = append(controllers, entry.Name())
		}
	}
	if !slices.Contains(controllers, "systemd") {
		return nil, fmt.Errorf("%s has no hierarchy for systemd", cgroupRoot)
	}
	// A new cpuset cgroup has no CPUs and no memory nodes. The kernel lets no process join a cgroup without them.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		values, err := os.ReadFile(filepath.Join(cgroupRoot, "cpuset", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(cgroupRoot, "cpuset", m.cgroup, file), values, 0o644); err != nil {
			return nil, err
		}
	}
	return controllers, nil
}
