package stats

import "path"

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
