package stats

import "path"

// ParentDirs returns the directories of the cgroup that is a container's parent for the engine, by the mount options of
// their trees, which the controllers of version 1 are among ("cpu", "memory"), or under "" where all are in one of
// version 2. It is empty when no cgroups can be seen. driver is the engine's, "systemd" or "cgroupfs".
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
