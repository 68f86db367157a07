package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/netns"
)

// mountView caches in which directories the engine sees this program's mounts. The zero value is empty.
type mountView struct {
	mu sync.Mutex
	// process is the engine process that these results are valid for.
	process int
	seen    map[string]bool
}

// sees prepares a directory and reports whether the engine sees mounts that this program makes there. The engine needs
// the pins, because containers join namespaces by the paths of the pins. If this program runs in a container, the
// engine may not see the pins. Each directory is tested once per engine process.
func (v *mountView) sees(ctx context.Context, engine int, dir string) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if engine == 0 || v.process != engine {
		v.process, v.seen = engine, map[string]bool{}
	}
	if seen, found := v.seen[dir]; found {
		return seen, nil
	}
	if err := netns.ShareDir(dir); err != nil {
		return false, err
	}
	seen, err := seesMounts(engine, dir)
	if err != nil {
		return false, err
	}
	if v.seen[dir] = seen; !seen {
		log.G(ctx).WithField("dir", dir).
			Warn("the engine does not see mounts in this directory: mount it with Bidirectional propagation")
	}
	return seen, nil
}

const (
	probePrefix = ".probe-"
	// probeAge is the age at which a probe is a leftover of a crash.
	probeAge = time.Minute
)

// sweepProbes removes the probes that a crash left in a directory.
func sweepProbes(dir string) error {
	probes, err := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
	for _, probe := range probes {
		if stat, statErr := os.Lstat(probe); statErr != nil || time.Since(stat.ModTime()) < probeAge {
			continue
		}
		if unmountErr := unix.Unmount(probe, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); unmountErr != nil &&
			!errors.Is(unmountErr, unix.EINVAL) {
			err = errors.Join(err, unmountErr)
			continue
		}
		err = errors.Join(err, os.Remove(probe))
	}
	return err
}

// seesMounts mounts a tmpfs in a directory and reports whether a process sees the mount.
func seesMounts(process int, dir string) (seen bool, err error) {
	probe, err := os.MkdirTemp(dir, probePrefix)
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
