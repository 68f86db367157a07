package stats

import (
	"path"
	"path/filepath"
	"strings"
)

// ProcsFile returns the cgroup.procs file of the cgroup that the engine's driver ("systemd" or "cgroupfs") will create
// below parent for the container with this id. It is empty if no cgroup tree is mounted.
func (c *Collector) ProcsFile(driver, parent, id string) string {
	cgroup := path.Join("/", parent, id)
	if driver == "systemd" {
		cgroup = path.Join(slicePath(parent), "docker-"+id+".scope")
	}
	tree := c.trees.unified
	if !c.trees.onUnified() {
		tree = c.trees.v1["memory"]
	}
	dir := tree.nodeDir(cgroup)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "cgroup.procs")
}

// slicePath returns the cgroup of a systemd slice, whose name contains its ancestors: a-b.slice is /a.slice/a-b.slice.
func slicePath(slice string) string {
	name := strings.TrimSuffix(slice, ".slice")
	cgroup := "/"
	for i := 1; i < len(name); i++ { // "-" alone is the root
		if name[i] == '-' {
			cgroup = path.Join(cgroup, name[:i]+".slice")
		}
	}
	if name == "-" {
		return cgroup
	}
	return path.Join(cgroup, name+".slice")
}
