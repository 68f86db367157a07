package stats

import (
	"path"
	"strings"
)

// ParentDirs returns the node's directories of parent, a container's cgroup parent in the engine. The keys are the
// mount options of each version 1 tree. Controllers such as "cpu" and "memory" are among them. The directory of version
// 2 has the key "". The map is empty if no cgroup tree is mounted. driver is the engine's cgroup driver, "systemd" or
// "cgroupfs".
func (c *Collector) ParentDirs(driver, parent string) map[string]string {
	cgroup := path.Join("/", parent)
	if driver == "systemd" {
		cgroup = slicePath(parent)
	}
	dirs := map[string]string{}
	if c.trees.onUnified() {
		if dir := c.trees.unified.nodeDir(cgroup); dir != "" {
			dirs[""] = dir
		}
		return dirs
	}
	for option, tree := range c.trees.v1 {
		if dir := tree.nodeDir(cgroup); dir != "" {
			dirs[option] = dir
		}
	}
	return dirs
}

// parentCgroup returns the cgroup that the client named as the parent of a pod's containers, nil if that cgroup is not
// visible here. A kubelet names a systemd slice by its whole path.
func (c *Collector) parentCgroup(parent string) *cgroup {
	driver, full := "cgroupfs", path.Join("/", parent)
	if strings.HasSuffix(parent, ".slice") {
		driver, parent = "systemd", path.Base(parent)
		full = slicePath(parent)
	}
	dirs := c.ParentDirs(driver, parent)
	g := &cgroup{path: full, v2: c.trees.onUnified(), unified: c.trees.unified.nodeDir(full),
		cpu: dirs["cpu"], cpuacct: dirs["cpuacct"], memory: dirs["memory"], pids: dirs["pids"], blkio: dirs["blkio"],
		hugetlb: dirs["hugetlb"]}
	if !g.readable() {
		return nil
	}
	return g
}
