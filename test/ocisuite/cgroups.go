package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/test/cgroups"
)

const cgroupRoot = "/sys/fs/cgroup"

// coverCgroups mounts a tmpfs with the same cgroup trees over /sys/fs/cgroup, in this mount namespace. Tests mount
// /sys/fs/cgroup into containers, and runc makes directories there for controllers that the node has not mounted.
// Without the cover, these directories would stay on the node. On a node with cgroup v2 alone, the directory is a
// cgroup tree itself, and nothing is covered.
func coverCgroups(dir string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(cgroupRoot))
	if err != nil {
		return err
	}
	if len(mounts) == 0 || mounts[0].FSType != "tmpfs" {
		return nil
	}
	cover := filepath.Join(dir, "cgroup")
	if err := os.Mkdir(cover, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("cgroup", cover, "tmpfs", 0, "mode=755"); err != nil {
		return os.NewSyscallError("mount", err)
	}
	for _, mount := range mounts[1:] {
		target := filepath.Join(cover, filepath.Base(mount.Mountpoint))
		if err := os.Mkdir(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(mount.Mountpoint, target, "", unix.MS_BIND, ""); err != nil {
			return os.NewSyscallError("mount", err)
		}
	}
	return os.NewSyscallError("mount", unix.Mount(cover, cgroupRoot, "", unix.MS_BIND|unix.MS_REC, ""))
}

// leftCgroup matches the cgroups that the suites leave in the root of a tree. The name is a container's id, or a fixed
// name of a suite.
var leftCgroup = regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|testdir|cgrouptest|` +
	`runc-cgroups-integration-test)$`)

// engineCgroup is the parent of containers' cgroups for engines that tests start, and for an engine of the node.
const engineCgroup = "docker"

// removeCgroups removes what the suites leave in the cgroup trees. A cgroup with a process stays. A directory of
// engineCgroup stays, too, if it existed before the suites.
func removeCgroups(before []string) error {
	for _, dir := range cgroups.Find(engineCgroup) {
		if !slices.Contains(before, dir) {
			_ = unix.Rmdir(dir) // fails if it is in use by another engine
		}
	}
	tops, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "*"))
	for _, top := range tops {
		if leftCgroup.MatchString(filepath.Base(top)) {
			err = errors.Join(err, cgroups.RemoveTree(top))
		}
	}
	return err
}
