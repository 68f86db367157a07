package stats

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
)

// hierarchy is one mounted cgroup tree.
type hierarchy struct {
	// mountpoint is the mount point. root is the cgroup at the mount point: "/", except in a container. In a container
	// it is below the node's root. If the node's tree is mounted into a cgroup namespace, root is above the container's
	// own cgroup ("/../..").
	mountpoint, root string
}

// dir returns the directory of a cgroup that /proc/PID/cgroup names, "" if it is outside of the mount.
func (h hierarchy) dir(cgroup string) string {
	if h.mountpoint == "" || !strings.HasPrefix(cgroup, "/") {
		return ""
	}
	inside := cgroup
	if h.root != "/" {
		var ok bool
		inside, ok = strings.CutPrefix(cgroup, h.root)
		if !ok || inside != "" && inside[0] != '/' {
			return ""
		}
	}
	if inside == "/.." || strings.HasPrefix(inside, "/../") {
		return "" // above the mount
	}
	return filepath.Join(h.mountpoint, inside)
}

// nodeDir returns the directory of a cgroup that the engine names from the node's root, "" if it is outside of the
// mount.
func (h hierarchy) nodeDir(cgroup string) string {
	if strings.Trim(h.root, "/.") == "" { // the node's tree in a cgroup namespace
		h.root = "/"
	}
	return h.dir(cgroup)
}

// hierarchies are the node's cgroup trees. They are immutable.
type hierarchies struct {
	// v1 are the trees of version 1 by controller.
	v1 map[string]hierarchy
	// unified is the tree of version 2. Its mount point is empty if there is none.
	unified hierarchy
}

// onUnified reports whether the controllers are on the tree of version 2.
func (h hierarchies) onUnified() bool {
	return h.unified.mountpoint != "" && h.v1["memory"].mountpoint == "" && h.v1["cpuacct"].mountpoint == ""
}

// findTrees finds the cgroup trees among mounts. The first mount of a tree counts.
func findTrees(mounts []*mountinfo.Info) hierarchies {
	found := hierarchies{v1: map[string]hierarchy{}}
	for _, mount := range mounts {
		tree := hierarchy{root: mount.Root, mountpoint: mount.Mountpoint}
		switch mount.FSType {
		case "cgroup2":
			if found.unified.mountpoint == "" {
				found.unified = tree
			}
		case "cgroup":
			for option := range strings.SplitSeq(mount.VFSOptions, ",") {
				if _, known := found.v1[option]; !known {
					found.v1[option] = tree
				}
			}
		}
	}
	return found
}

// cgroup has the directories of one container or pod, by controller. A directory is empty if the controller is missing.
// It is immutable.
type cgroup struct {
	// path is the path below the root of the tree that accounts memory.
	path string
	// unified is the directory in the tree of version 2. With version 1, it has the pressure only.
	unified string
	// v2 says that all stats are in unified.
	v2 bool
	// The other fields are directories of version 1.
	cpu, cpuacct, memory, pids, blkio, hugetlb string
}

// readable reports whether there is anything to read.
func (g *cgroup) readable() bool {
	return g.v2 && g.unified != "" || g.memory != "" || g.cpuacct != ""
}

// parent returns the cgroup above.
func (g *cgroup) parent() *cgroup {
	up := func(dir string) string {
		if dir == "" {
			return ""
		}
		return filepath.Dir(dir)
	}
	return &cgroup{
		path: path.Dir(g.path), v2: g.v2, unified: up(g.unified),
		cpu: up(g.cpu), cpuacct: up(g.cpuacct), memory: up(g.memory), pids: up(g.pids), blkio: up(g.blkio),
		hugetlb: up(g.hugetlb),
	}
}

// parseCgroups finds a container's cgroup in the cgroup file of one of its processes (cgroups(7)). In each tree, it
// takes the path up to the element with the container's id. A tree whose path lacks the id has no stats of this
// container. It returns nil if no tree is left, because the process does not belong to this container.
func parseCgroups(content []byte, id string, trees hierarchies) *cgroup {
	g := &cgroup{v2: trees.onUnified()}
	for line := range lines(content) {
		_, rest, _ := strings.Cut(string(line), ":")
		controllers, full, ok := strings.Cut(rest, ":")
		cgroup, has := cutBehind(full, id)
		if !ok || !has {
			continue
		}
		if controllers == "" {
			g.unified = trees.unified.dir(cgroup)
			if g.v2 {
				g.path = cgroup
			}
			continue
		}
		for controller := range strings.SplitSeq(controllers, ",") {
			g.set(controller, cgroup, trees.v1[controller])
		}
	}
	if !g.readable() {
		return nil
	}
	return g
}

// set sets the directory of one controller of version 1.
func (g *cgroup) set(controller, cgroup string, tree hierarchy) {
	dir := tree.dir(cgroup)
	switch controller {
	case "cpu":
		g.cpu = dir
	case "cpuacct":
		g.cpuacct = dir
	case "memory":
		g.memory = dir
		g.path = cgroup
	case "pids":
		g.pids = dir
	case "blkio":
		g.blkio = dir
	case "hugetlb":
		g.hugetlb = dir
	}
}

// cutBehind cuts a path after the element that contains an id.
func cutBehind(cgroup, id string) (string, bool) {
	at := strings.Index(cgroup, id)
	if at < 0 || id == "" {
		return "", false
	}
	end := at + len(id)
	if slash := strings.IndexByte(cgroup[end:], '/'); slash >= 0 {
		return cgroup[:end+slash], true
	}
	return cgroup, true
}

// locate finds a container's cgroup by one of its processes. It fails with ErrNotFound if the process is gone or
// belongs to another container.
func (c *Collector) locate(r *reader, id string, pid int) (*cgroup, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("container %s has no process: %w", id, errdefs.ErrNotFound)
	}
	content, err := r.read(c.procFile(pid, "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("the process of container %s is gone: %w: %w", id, errdefs.ErrNotFound, err)
	}
	if g := parseCgroups(content, id, c.trees); g != nil {
		return g, nil
	}
	return nil, fmt.Errorf("process %d is in no cgroup of container %s that is visible here: %w", pid, id,
		errdefs.ErrNotFound)
}

func (c *Collector) procFile(pid int, name string) string {
	return c.proc + "/" + strconv.Itoa(pid) + "/" + name
}

// readTrees finds the node's cgroup trees.
func readTrees(proc string) (hierarchies, error) {
	mounts, err := readMounts(proc, "self", mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return hierarchies{}, err
	}
	trees := findTrees(mounts)
	if trees.unified.mountpoint == "" && len(trees.v1) == 0 {
		return hierarchies{}, fmt.Errorf("no cgroups are mounted, mount them at /sys/fs/cgroup: %w",
			errdefs.ErrFailedPrecondition)
	}
	return trees, nil
}

// readMounts reads the mounts of a process (proc(5)) that pass the filter, all of them if it is nil.
func readMounts(proc, pid string, filter mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
	file, err := os.Open(filepath.Join(proc, pid, "mountinfo"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return mountinfo.GetMountsFromReader(file, filter)
}
