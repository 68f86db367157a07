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
)

func TestOutputModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod", "container", "0.log")
	o, err := openOutput("", path)
	if err != nil {
		t.Fatal(err)
	}
	defer o.file.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm() &^ 0o640; got != 0 {
		t.Errorf("the CRI log has mode %v", info.Mode())
	}
}

// A write that fails half-way must not leave half a line, nor repeat any when it is tried again.
func TestFailedWriteIsTakenBack(t *testing.T) {
	disk := smallDisk(t)
	path := filepath.Join(disk, "0.log")
	o, err := openOutput("", path)
	if err != nil {
		t.Fatal(err)
	}
	defer o.file.Close()
	if _, err := o.write([]byte("whole\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.write(bytes.Repeat([]byte("too long for the disk\n"), 10_000)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("write on a full disk: %v", err)
	}
	if content, _ := os.ReadFile(path); string(content) != "whole\n" {
		t.Errorf("the file holds %.100q", content)
	}
	if _, err := o.write([]byte("again\n")); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(path); string(content) != "whole\nagain\n" {
		t.Errorf("the file holds %.100q", content)
	}
}

// A follower on a full disk goes on when there is room, without loss.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t)
	enginePath, _ := paths(t)
	logPath := filepath.Join(disk, "0.log")
	engine := newEngineLog(t, enginePath, 2, 1<<20)
	s := newService(t)
	start(t, s, localLog(enginePath, logPath))
	want := engine.lines(1, 50)
	waitLines(t, logPath, 50)
	fill := filepath.Join(disk, "fill")
	if err := os.WriteFile(fill, make([]byte, diskSize), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	want = append(want, engine.lines(51, 400)...)
	time.Sleep(50 * time.Millisecond) // a few failures
	if _, got := readCRI(t, logPath); len(got) >= len(want) {
		t.Fatal("the disk was not full")
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	equalLines(t, waitLines(t, logPath, len(want)), want)
	drain(t, s, "c")
}

// A container's end does not wait for ever for a disk.
func TestDrainOnAFullDiskGivesUp(t *testing.T) {
	disk := smallDisk(t)
	enginePath, _ := paths(t)
	engine := newEngineLog(t, enginePath, 2, 1<<30)
	s := newService(t)
	start(t, s, Source{ContainerID: "c", Driver: DriverLocal, Path: enginePath, LogPath: filepath.Join(disk, "0.log")})
	engine.lines(1, 5000) // more than there is room for
	if err := s.Drain(t.Context(), "c"); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Drain on a full disk: %v", err)
	}
}

const diskSize = 64 << 10

// smallDisk mounts a file system of that size.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(diskSize))
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting a small file system needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Somebody empties the CRI log to make room: positions must not count what is no longer there.
func TestLogEmptiedBySomebody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	o, err := openOutput("", path)
	if err != nil {
		t.Fatal(err)
	}
	defer o.file.Close()
	if _, err := o.write([]byte("before\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := o.write([]byte("after\n")); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(path); string(content) != "after\n" || o.size != 6 {
		t.Errorf("the file holds %q, its size is taken for %d", content, o.size)
	}
}

func TestCutNeverGrowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte("short\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	o, err := openOutput("", path)
	if err != nil {
		t.Fatal(err)
	}
	defer o.file.Close()
	if err := o.cut(1000); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(path); string(content) != "short\n" {
		t.Errorf("the file holds %q", content)
	}
}
