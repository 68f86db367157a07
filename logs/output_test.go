package logs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// openOutput opens the CRI log at its path.
func openOutput(root, path string) (*output, error) {
	o := &output{root: root, path: path}
	if err := o.openAt(path); err != nil {
		return nil, err
	}
	return o, nil
}

func TestOutputModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod", "container", "0.log")
	o, err := openOutput("", path)
	testutil.Must(t, err)
	defer o.file.Close()
	info, err := os.Stat(path)
	testutil.Must(t, err)
	got := info.Mode().Perm() &^ 0o640
	testutil.Assert(t, got == 0, "the CRI log has mode %v", info.Mode())
}

// A write that fails half-way leaves no half line, and its repetition repeats no line.
func TestFailedWriteIsTakenBack(t *testing.T) {
	disk := smallDisk(t)
	path := filepath.Join(disk, "0.log")
	o, err := openOutput("", path)
	testutil.Must(t, err)
	defer o.file.Close()
	_, err = o.write([]byte("whole\n"))
	testutil.Must(t, err)
	_, err = o.write(bytes.Repeat([]byte("too long for the disk\n"), 10_000))
	testutil.Require(t, errors.Is(err, unix.ENOSPC), "write on a full disk: %v", err)
	testutil.Holds(t, path, "whole\n")
	_, err = o.write([]byte("again\n"))
	testutil.Must(t, err)
	testutil.Holds(t, path, "whole\nagain\n")
}

// A follower on a full disk goes on when there is room, without loss.
func TestFullDisk(t *testing.T) {
	o, disk := followOnSmallDisk(t, 2, 1<<20)
	want := o.engine.lines(1, 50)
	o.wait(50)
	fill := filepath.Join(disk, "fill")
	err := os.WriteFile(fill, make([]byte, diskSize), 0o600)
	testutil.Require(t, errors.Is(err, unix.ENOSPC), "the disk is not full: %v", err)
	want = append(want, o.engine.lines(51, 400)...)
	time.Sleep(50 * time.Millisecond) // a few failures
	testutil.Require(t, len(o.log()) < len(want), "the disk was not full")
	testutil.Must(t, os.Remove(fill))
	equalLines(t, o.wait(len(want)), want)
	o.drain()
}

// Drain returns an error if the disk of the CRI log stays full.
func TestDrainOnAFullDiskGivesUp(t *testing.T) {
	o, _ := followOnSmallDisk(t, 2, 1<<30)
	o.engine.lines(1, 5000) // more than diskSize
	testutil.FailsWith(t, o.s.Drain(t.Context(), "c"), unix.ENOSPC, "Drain on a full disk")
}

const diskSize = 64 << 10

// smallDisk mounts a file system of diskSize bytes.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(diskSize))
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting a small file system needs root")
	}
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Check(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	return dir
}

// An operator empties the CRI log to make room. Positions must not count the removed content.
func TestLogEmptiedByAnOperator(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	o, err := openOutput("", path)
	testutil.Must(t, err)
	defer o.file.Close()
	_, err = o.write([]byte("before\n"))
	testutil.Must(t, err)
	empty(t, path)
	_, err = o.write([]byte("after\n"))
	testutil.Must(t, err)
	content, _ := os.ReadFile(path)
	testutil.Assert(t, string(content) == "after\n" && o.size == 6,
		"the file holds %q, its size is taken for %d", content, o.size)
}

func TestCutNeverGrowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	testutil.Must(t, os.WriteFile(path, []byte("short\n"), 0o640))
	o, err := openOutput("", path)
	testutil.Must(t, err)
	defer o.file.Close()
	testutil.Must(t, o.cut(1000))
	testutil.Holds(t, path, "short\n")
}
