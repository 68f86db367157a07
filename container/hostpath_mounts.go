package container

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
)

// maxLinks is how many symbolic links a path may follow, as in path_resolution(7).
const maxLinks = 40

// mountPoints are the places at which file systems are mounted.
type mountPoints []string

// readMountPoints reads the kernel's table, without touching the file systems.
func readMountPoints() (mountPoints, error) {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("reading the mounts of the node: %w", err)
	}
	points := make(mountPoints, 0, len(mounts))
	for _, mount := range mounts {
		points = append(points, mount.Mountpoint)
	}
	return points, nil
}

// holding returns the mount point of the file system that holds a path, which must be absolute, clean and without
// links.
func (m mountPoints) holding(path string) string {
	longest := "/"
	for _, point := range m {
		if len(point) > len(longest) && (path == point || strings.HasPrefix(path, point+"/")) {
			longest = point
		}
	}
	return longest
}

// seats limits the number of calls that are under way on each file system. The zero value has maxHanging seats for
// each.
type seats struct {
	mu sync.Mutex
	// taken has the seats of each mount point that has users.
	taken map[string]*mountSeats
}

type mountSeats struct {
	slots chan struct{}
	// users counts the calls that hold a seat or wait for one.
	users int
}

// take waits for a seat, at most for patience, and then fails with errdefs.ErrUnavailable.
func (s *seats) take(mountPoint string, patience time.Duration) error {
	s.mu.Lock()
	if s.taken == nil {
		s.taken = map[string]*mountSeats{}
	}
	here := s.taken[mountPoint]
	if here == nil {
		here = &mountSeats{slots: make(chan struct{}, maxHanging)}
		s.taken[mountPoint] = here
	}
	here.users++
	s.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case here.slots <- struct{}{}:
		return nil
	case <-timer.C:
		s.leave(mountPoint)
		return fmt.Errorf("%d other paths on %s do not answer for %v, check that file system: %w", maxHanging,
			mountPoint, patience, errdefs.ErrUnavailable)
	}
}

// give releases a seat.
func (s *seats) give(mountPoint string) {
	s.mu.Lock()
	slots := s.taken[mountPoint].slots
	s.mu.Unlock()
	<-slots
	s.leave(mountPoint)
}

// leave ends the use of a mount point's seats.
func (s *seats) leave(mountPoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := s.taken[mountPoint]
	if here.users--; here.users == 0 {
		delete(s.taken, mountPoint)
	}
}

// visitor is one call on its way along a path. It holds a seat of the file system that it is on.
type visitor struct {
	seats    *seats
	mounts   mountPoints
	patience time.Duration
	// mountPoint is the mount point whose seat it holds, empty for none.
	mountPoint string
}

// enter takes a seat of the file system of path, after it has given back the seat of the previous file system.
func (v *visitor) enter(path string) error {
	next := v.mounts.holding(path)
	if next == v.mountPoint {
		return nil
	}
	v.end()
	if err := v.seats.take(next, v.patience); err != nil {
		return err
	}
	v.mountPoint = next
	return nil
}

func (v *visitor) end() {
	if v.mountPoint != "" {
		v.seats.give(v.mountPoint)
		v.mountPoint = ""
	}
}

// walk follows a path and its links as far as they exist. It takes a seat of each name's file system before it looks at
// the name. The path must be absolute and clean.
func (v *visitor) walk(path string) error {
	at, rest, links := "/", strings.TrimPrefix(path, "/"), 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(at, name)
		if err := v.enter(next); err != nil {
			return err
		}
		info, err := os.Lstat(next)
		if err != nil {
			return nil // the call for the path reports the error
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return nil
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = strings.TrimPrefix(target+"/"+rest, "/")
	}
	return nil
}
