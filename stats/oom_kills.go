package stats

import (
	"os"
	"path/filepath"
	"strings"
)

// OOMKills counts the processes that the OOM killer killed in cgroups below a container's cgroup parent. It counts
// kills in cgroups that no longer exist, and in the cgroup of the ended container with this id. With an empty id, it
// counts only kills in cgroups that no longer exist. parent is written as the engine has it: a slice's name, or a path.
// OOMKills returns false if no cgroup of version 2 counts these kills.
//
// The kernel's file memory.events of a cgroup has the kills of all cgroups below it, also of removed ones
// (Documentation/admin-guide/cgroup-v2.rst).
func (c *Collector) OOMKills(parent, id string) (kills uint64, ok bool) {
	driver := "cgroupfs"
	if strings.HasSuffix(parent, ".slice") && !strings.Contains(parent, "/") {
		driver = "systemd"
	}
	dir := c.ParentDirs(driver, parent)[""]
	if dir == "" {
		return 0, false
	}
	r := &reader{}
	if kills, ok = oomKills(r, dir); !ok || kills == 0 {
		return kills, ok
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, false
	}
	for _, entry := range entries {
		if !entry.IsDir() || id != "" && strings.Contains(entry.Name(), id) {
			continue
		}
		ofLiving, _ := oomKills(r, filepath.Join(dir, entry.Name()))
		kills -= min(ofLiving, kills)
	}
	return kills, true
}

// oomKills reads the number of killed processes from a cgroup's directory.
func oomKills(r *reader, dir string) (uint64, bool) {
	kills := keyed(r, filepath.Join(dir, "memory.events"), "oom_kill")
	if kills == nil {
		return 0, false
	}
	return *kills, true
}
