package eviction

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// disk is a file system of 1000 blocks of 1 KiB. space and inodes are the free percentages, files is the number of
// inodes.
type disk struct{ space, inodes, files uint64 }

// machineOf makes a machine with a meminfo file and two disks.
func machineOf(t *testing.T, meminfo string, disks map[string]disk) machine {
	t.Helper()
	proc := t.TempDir()
	for name, text := range map[string]string{
		"meminfo": meminfo, "loadavg": "0 0 0 1/300 9", "sys/kernel/pid_max": "32768", "sys/kernel/threads-max": "1000",
	} {
		testutil.WriteFile(t, filepath.Join(proc, name), text)
	}
	return machine{rootDir: "/root", imageDir: "/images", meminfo: filepath.Join(proc, "meminfo"), proc: proc,
		statfs: func(path string, stat *unix.Statfs_t) error {
			of, ok := disks[path]
			if !ok {
				return unix.ENOENT
			}
			*stat = unix.Statfs_t{Frsize: 1024, Blocks: 1000, Bfree: 1000, Bavail: 10 * of.space, Files: of.files,
				Ffree: of.files * of.inodes / 100}
			return nil
		}}
}

const (
	plenty = "MemTotal: 1000000 kB\nMemFree: 300000 kB\nInactive(file): 200000 kB\n"
	// little leaves 100000 kB, which is below 100Mi.
	little = "MemTotal: 1000000 kB\nMemFree: 60000 kB\nMemAvailable: 900000 kB\nInactive(file): 40000 kB\n"
)

var roomy = map[string]disk{"/root": {50, 50, 1000}, "/images": {50, 50, 1000}}

func TestLook(t *testing.T) {
	with := func(path string, of disk) map[string]disk {
		disks := map[string]disk{"/root": roomy["/root"], "/images": roomy["/images"]}
		disks[path] = of
		return disks
	}
	for _, test := range []struct {
		name    string
		meminfo string
		disks   map[string]disk
		met     []signal
		unknown []v1.NodeConditionType
	}{
		{name: "plenty", meminfo: plenty, disks: roomy},
		{name: "memory", meminfo: little, disks: roomy, met: []signal{memoryAvailable}},
		{name: "at the thresholds", meminfo: "MemTotal: 1000000 kB\nMemFree: 102400 kB\n",
			disks: map[string]disk{"/root": {10, 5, 1000}, "/images": {15, 5, 1000}}},
		{name: "pods' disk", meminfo: plenty, disks: with("/root", disk{9, 50, 1000}), met: []signal{nodefsAvailable}},
		{name: "pods' inodes", meminfo: plenty, disks: with("/root", disk{50, 4, 1000}),
			met: []signal{nodefsInodesFree}},
		{name: "no number of inodes", meminfo: plenty, disks: with("/root", disk{50, 0, 0})},
		{name: "images' disk", meminfo: plenty, disks: with("/images", disk{14, 50, 1000}),
			met: []signal{imagefsAvailable}},
		{name: "images' inodes", meminfo: plenty, disks: with("/images", disk{50, 4, 1000}),
			met: []signal{imagefsInodesFree}},
		{name: "all, memory first", meminfo: little,
			disks: map[string]disk{"/root": {1, 1, 1000}, "/images": {1, 1, 1000}}, met: signals[:5]},
		{name: "memory unknown", meminfo: "MemFree: 1 kB\n", disks: roomy,
			unknown: []v1.NodeConditionType{v1.NodeMemoryPressure}},
		{name: "memory unreadable", meminfo: "MemTotal: x kB\n", disks: roomy,
			unknown: []v1.NodeConditionType{v1.NodeMemoryPressure}},
		{name: "memory unknown, no number of inodes", meminfo: "MemFree: 1 kB\n", disks: with("/root", disk{50, 0, 0}),
			unknown: []v1.NodeConditionType{v1.NodeMemoryPressure}},
		{name: "disk unknown", meminfo: little, disks: map[string]disk{"/root": {9, 50, 1000}},
			met: []signal{memoryAvailable, nodefsAvailable}, unknown: []v1.NodeConditionType{v1.NodeDiskPressure}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMonitor(MonitorOptions{Thresholds: parsed(t, DefaultThresholds()...)},
				machineOf(t, test.meminfo, test.disks))
			found := m.look(nil)
			var met []signal
			pressed := map[v1.NodeConditionType]bool{}
			for _, one := range found.met {
				met = append(met, one.signal)
				pressed[one.signal.condition()] = true
			}
			testutil.Assert(t, slices.Equal(met, test.met), "met %v, want %v", met, test.met)
			for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure} {
				short, err := m.Pressure(kind)
				testutil.Assert(t, short == pressed[kind] && (err != nil) == slices.Contains(test.unknown, kind),
					"%s is %v, %v", kind, short, err)
			}
		})
	}
}

// TestTransition: pressure is shown for five minutes after it ended, and each change is reported once.
func TestTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		m := New(n.options(t))
		began := time.Now()
		for _, step := range []struct {
			at      time.Duration
			short   bool
			want    bool
			changes int
		}{
			{0, false, false, 0}, {time.Minute, true, true, 1}, {2 * time.Minute, true, true, 1},
			{3 * time.Minute, false, true, 1},
			{7*time.Minute - time.Second, false, true, 1}, {7 * time.Minute, false, false, 2},
			{8 * time.Minute, false, false, 2},
		} {
			time.Sleep(time.Until(began.Add(step.at)))
			text := plenty
			if step.short {
				text = little
			}
			testutil.Must(t, os.WriteFile(n.monitor.machine.meminfo, []byte(text), 0o600))
			m.look(nil)
			got, err := n.monitor.Pressure(v1.NodeMemoryPressure)
			testutil.Assert(t, got == step.want && err == nil && n.changes == step.changes,
				"after %v: %v, %v, %d changes; want %+v", step.at, got, err, n.changes, step)
			got, _ = n.monitor.Pressure(v1.NodeDiskPressure)
			testutil.Assert(t, !got, "memory pressure is reported as disk pressure")
		}
	})
}

// TestThisMachine reads the real files.
func TestThisMachine(t *testing.T) {
	dir := t.TempDir()
	m := NewMonitor(MonitorOptions{Thresholds: parsed(t, DefaultThresholds()...), RootDir: dir})
	found := m.look(nil)
	testutil.Require(t, found.err == nil && len(found.seen) >= 3, "%v: %v", found.seen, found.err)
	for of, seen := range found.seen {
		testutil.Assert(t, seen.capacity > 0 && seen.available >= 0 && seen.available <= seen.capacity,
			"%s: %+v", of, seen)
	}
	testutil.Assert(t, !m.machine.dedicatedImageDisk(), "one directory has two file systems")
	m.machine.imageDir = "/proc"
	testutil.Assert(t, m.machine.dedicatedImageDisk(), "two file systems count as one")
	m.machine.imageDir = filepath.Join(dir, "missing")
	testutil.Assert(t, !m.machine.dedicatedImageDisk(), "a directory that is not there has a file system")
	_, errs := m.machine.observe(nil)
	testutil.FailsWith(t, errs[v1.NodeDiskPressure], unix.ENOENT, "a directory that is not there")
}
