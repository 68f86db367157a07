package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/netns"
)

// reach is what the kernelHolder knows of its directories.
type reach struct {
	// process is whom it was found out for, and seen says whether that process sees what is mounted in them here.
	process int
	seen    bool
}

// reaches prepares the directories of pods, and reports whether the engine, which is asked once in each of its lives,
// sees what is mounted there: containers join the namespaces by their paths. In a container with mounts of its own this
// program pins them for itself alone.
func (h kernelHolder) reaches(ctx context.Context, engine int) (bool, error) {
	known := &h.s.kernelPods
	known.mu.Lock()
	defer known.mu.Unlock()
	if engine != 0 && known.reach.process == engine {
		return known.reach.seen, nil
	}
	for _, dir := range []string{filepath.Dir(h.s.netnsPath("")), h.s.opts.podsDir} {
		if err := netns.ShareDir(dir); err != nil {
			return false, err
		}
		seen, err := seesMounts(engine, dir)
		if err != nil {
			return false, err
		}
		if !seen {
			log.G(ctx).WithField("dir", dir).Warn("the engine does not see what is mounted here, so pods get sandbox containers: mount the directory with Bidirectional propagation")
			known.reach = reach{process: engine}
			return false, nil
		}
	}
	known.reach = reach{process: engine, seen: true}
	return true, nil
}

// seesMounts mounts something in a directory and reports whether a process sees it.
func seesMounts(process int, dir string) (seen bool, err error) {
	probe, err := os.MkdirTemp(dir, ".probe-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.Remove(probe)) }()
	if err := unix.Mount("probe", probe, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k"); err != nil {
		return false, fmt.Errorf("mounting in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(probe, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)) }()
	here, err := os.Stat(probe)
	if err != nil {
		return false, err
	}
	there, err := os.Stat(filepath.Join("/proc", strconv.Itoa(process), "root", probe))
	return err == nil && os.SameFile(here, there), nil
}
