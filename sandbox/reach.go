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

// reach is what is known of the directories with pins.
type reach struct {
	mu sync.Mutex
	// process is whom it was found out for, and seen says of a directory whether that process sees what is mounted in it
	// here.
	process int
	seen    map[string]bool
}

// engineSees prepares a directory, and reports whether the engine, which is asked once in each of its lives, sees what is
// mounted there: containers join namespaces by their paths. In a container with mounts of its own this program pins them
// for itself alone.
func (s *Service) engineSees(ctx context.Context, engine int, dir string) (bool, error) {
	known := &s.reach
	known.mu.Lock()
	defer known.mu.Unlock()
	if engine == 0 || known.process != engine {
		known.process, known.seen = engine, map[string]bool{}
	}
	if seen, found := known.seen[dir]; found {
		return seen, nil
	}
	if err := netns.ShareDir(dir); err != nil {
		return false, err
	}
	seen, err := seesMounts(engine, dir)
	if err != nil {
		return false, err
	}
	if known.seen[dir] = seen; !seen {
		log.G(ctx).WithField("dir", dir).Warn("the engine does not see what is mounted here: mount the directory with Bidirectional propagation")
	}
	return seen, nil
}

// reaches reports whether the engine sees the pins of pods that have no sandbox container.
func (h kernelHolder) reaches(ctx context.Context, engine int) (bool, error) {
	seen, err := h.s.engineSees(ctx, engine, filepath.Dir(h.s.netnsPath("")))
	if err != nil || !seen {
		return false, err
	}
	return h.s.engineSees(ctx, engine, h.s.opts.podsDir)
}

const (
	probePrefix = ".probe-"
	// probeAge is when a probe is nobody's any more.
	probeAge = time.Minute
)

// sweepProbes removes the probes that a crash left in a directory.
func sweepProbes(dir string) error {
	probes, err := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
	for _, probe := range probes {
		if stat, statErr := os.Lstat(probe); statErr != nil || time.Since(stat.ModTime()) < probeAge {
			continue
		}
		if unmountErr := unix.Unmount(probe, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); unmountErr != nil && !errors.Is(unmountErr, unix.EINVAL) {
			err = errors.Join(err, unmountErr)
			continue
		}
		err = errors.Join(err, os.Remove(probe))
	}
	return err
}

// seesMounts mounts something in a directory and reports whether a process sees it.
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
