package stats

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// CgroupDir returns the directory with the files of a controller ("hugetlb") of a container's cgroup. It finds the
// cgroup by one of the container's processes. unified reports whether the directory is of version 2, which has one
// directory for all controllers. CgroupDir fails with ErrNotFound if the process is gone or belongs to another
// container, or if no tree with that controller is mounted. Any other error, such as too many open files, says nothing
// about the process.
func (c *Collector) CgroupDir(id string, pid int, controller string) (dir string, unified bool, err error) {
	content, err := os.ReadFile(c.procFile(pid, "cgroup"))
	switch {
	case os.IsNotExist(err), errors.Is(err, unix.ESRCH):
		return "", false, fmt.Errorf("the process of container %s is gone: %w: %w", id, errdefs.ErrNotFound, err)
	case err != nil:
		return "", false, fmt.Errorf("finding the cgroup of container %s: %w", id, err)
	}
	unified = c.trees.onUnified()
	for line := range lines(content) {
		_, rest, _ := strings.Cut(string(line), ":")
		controllers, full, _ := strings.Cut(rest, ":")
		cgroup, has := cutBehind(full, id)
		switch {
		case !has:
		case unified && controllers == "":
			dir = c.trees.unified.dir(cgroup)
		case !unified && slices.Contains(strings.Split(controllers, ","), controller):
			dir = c.trees.v1[controller].dir(cgroup)
		}
	}
	if dir == "" {
		return "", unified, fmt.Errorf("process %d is in no cgroup of container %s with the controller %s: %w", pid, id,
			controller, errdefs.ErrNotFound)
	}
	return dir, unified, nil
}
