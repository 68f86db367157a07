package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// sliceTree is the tree for the driver systemd. systemd owns the cgroups, and would undo direct writes.
type sliceTree struct {
	// files reads the cgroups that systemd makes.
	files   *files
	systemd *connection
}

func newSlices(ctx context.Context, mount string) (*sliceTree, error) {
	files, err := newFiles(mount)
	if err != nil {
		return nil, err
	}
	if !files.unified {
		return nil, fmt.Errorf("the kubelet core supports the systemd cgroup driver only with cgroup v2: %w",
			errdefs.ErrNotImplemented)
	}
	s := &sliceTree{files: files, systemd: &connection{dial: func(ctx context.Context) (units, error) {
		return systemd.NewSystemConnectionContext(ctx)
	}}}
	if _, err := s.systemd.get(ctx); err != nil {
		return nil, fmt.Errorf("systemd: %w", err)
	}
	return s, nil
}

func (s *sliceTree) close() { s.systemd.close() }

func (s *sliceTree) spell(n name) string { return n.systemd() }

func (s *sliceTree) ensure(ctx context.Context, n name, l limits) error {
	conn, err := s.systemd.get(ctx)
	if err != nil {
		return err
	}
	wanted := properties(l)
	first := append([]systemd.Property{
		systemd.PropDescription("Pods of a kubelet: " + n.cgroupfs()),
		property("DefaultDependencies", false), property("CPUAccounting", true), property("MemoryAccounting", true),
		property("TasksAccounting", true),
	}, wanted...)
	done := make(chan string, 1)
	_, err = conn.StartTransientUnitContext(ctx, n.slice(), "replace", first, done)
	if exists(err) {
		if len(wanted) == 0 {
			return nil
		}
		return conn.SetUnitPropertiesContext(ctx, n.slice(), true, wanted...)
	}
	if err != nil {
		return err
	}
	return finished(ctx, n.slice(), done)
}

// exists reports whether the error means that the unit exists.
func exists(err error) bool {
	var answer dbus.Error
	return errors.As(err, &answer) && answer.Name == "org.freedesktop.systemd1.UnitExists"
}

// finished waits for the end of a job.
func finished(ctx context.Context, unit string, done <-chan string) error {
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("systemd's job for %s ended as %s", unit, result)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func properties(l limits) []systemd.Property {
	var out []systemd.Property
	if l.shares > 0 {
		out = append(out, property("CPUWeight", uint64(weight(l.shares))))
	}
	limit := func(name string, value int64, spelled uint64) {
		switch {
		case value > 0:
			out = append(out, property(name, spelled))
		case value == noLimit:
			out = append(out, property(name, uint64(math.MaxUint64))) // systemd's infinity
		}
	}
	limit("CPUQuotaPerSecUSec", l.quota, quotaPerSecond(l.quota))
	limit("MemoryMax", l.memory, uint64(l.memory))
	limit("TasksMax", l.pids, uint64(l.pids))
	return out
}

// quotaPerSecond converts a quota per Period to systemd's quota per second, in whole hundredths of a CPU. It rounds up,
// so that no limit becomes lower.
func quotaPerSecond(quota int64) uint64 {
	const second, step = 1_000_000, 10_000
	perSecond := uint64(quota) * (second / Period)
	return (perSecond + step - 1) / step * step
}

func property(name string, value any) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
}

// remove stops the slice, which kills its processes.
func (s *sliceTree) remove(ctx context.Context, n name) error {
	found, err := dirs(s.dir(n))
	if err != nil || len(found) == 0 {
		return err
	}
	conn, err := s.systemd.get(ctx)
	if err != nil {
		return err
	}
	done := make(chan string, 1)
	if _, err := conn.StopUnitContext(ctx, n.slice(), "replace", done); err != nil {
		return err
	}
	return finished(ctx, n.slice(), done)
}

func (s *sliceTree) prune(ctx context.Context, n name) error {
	if found, err := dirs(s.dir(n)); err != nil || len(found) != 1 {
		return err
	}
	return s.remove(ctx, n)
}

func (s *sliceTree) has(n name) bool { return isDir(s.dir(n)) }

func (s *sliceTree) dir(n name) string {
	return filepath.Join(s.files.hierarchies[0], n.systemd())
}

func (s *sliceTree) children(n name) ([]string, error) {
	entries, err := s.files.children(name(strings.Split(strings.TrimPrefix(n.systemd(), "/"), "/")))
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(n.slice(), ".slice") + "-"
	var found []string
	for _, entry := range entries {
		last, ok := strings.CutPrefix(entry, prefix)
		if last, slice := strings.CutSuffix(last, ".slice"); ok && slice {
			found = append(found, strings.ReplaceAll(last, "_", "-"))
		}
	}
	return found, nil
}
