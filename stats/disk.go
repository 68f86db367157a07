package stats

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// diskUsage is what a folder takes on disk.
type diskUsage struct {
	bytes, inodes uint64
}

// countFolder adds up a folder and all below it on the same device, a file with
// several names once. Files that vanish meanwhile are not counted.
func countFolder(ctx context.Context, root string) (diskUsage, error) {
	var sum diskUsage
	var top *syscall.Stat_t
	links := map[uint64]bool{}
	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return unlessFirst(err, top == nil)
		}
		info, err := entry.Info()
		if err != nil {
			return unlessFirst(err, top == nil)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if top == nil {
			top = stat
		}
		if stat.Dev != top.Dev {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.IsDir() && stat.Nlink > 1 {
			if links[stat.Ino] {
				return nil
			}
			links[stat.Ino] = true
		}
		const blockSize = 512 // of st_blocks, whatever the filesystem's
		sum.bytes += uint64(stat.Blocks) * blockSize
		sum.inodes++
		return nil
	})
	return sum, err
}

// unlessFirst lets a walk go on after a file that vanished, if that is not the
// folder itself.
func unlessFirst(err error, first bool) error {
	if !first && os.IsNotExist(err) {
		return nil
	}
	return err
}

// filesystem is the size of the filesystem that a folder is on.
type filesystem struct {
	device                    device
	bytes, inodes, freeInodes uint64
}

func filesystemOf(folder string) (filesystem, error) {
	var stat unix.Stat_t
	if err := unix.Stat(folder, &stat); err != nil {
		return filesystem{}, &fs.PathError{Op: "stat", Path: folder, Err: err}
	}
	var statfs unix.Statfs_t
	if err := unix.Statfs(folder, &statfs); err != nil {
		return filesystem{}, &fs.PathError{Op: "statfs", Path: folder, Err: err}
	}
	return filesystem{
		device:     device{unix.Major(stat.Dev), unix.Minor(stat.Dev)},
		bytes:      statfs.Blocks * uint64(statfs.Bsize),
		inodes:     statfs.Files,
		freeInodes: statfs.Ffree,
	}, nil
}

// upperOf finds the folder of the writable layer of a running container, whose
// root is an overlay; "" when there is none to be seen.
func upperOf(proc string, pid int) string {
	if pid <= 0 {
		return ""
	}
	content, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return ""
	}
	return parseUpper(content)
}

// parseUpper finds the upper folder of the overlay on "/" in a mountinfo file.
// One that is not absolute is relative to a folder that nobody knows any more.
func parseUpper(content []byte) string {
	upper := ""
	for line := range lines(content) {
		before, after, _ := bytes.Cut(line, []byte(" - "))
		place, kind := strings.Fields(string(before)), strings.Fields(string(after))
		if len(place) < 5 || len(kind) < 3 || place[4] != "/" || kind[0] != "overlay" {
			continue
		}
		for option := range strings.SplitSeq(kind[2], ",") {
			if folder, ok := strings.CutPrefix(option, "upperdir="); ok && filepath.IsAbs(folder) {
				upper = unescape(folder)
			}
		}
	}
	return upper
}

// deviceNames knows block devices by their names. It is safe for concurrent
// use.
type deviceNames struct {
	mu    sync.Mutex
	names map[device]string
}

func newDeviceNames() *deviceNames { return &deviceNames{names: map[device]string{}} }

// name returns "/dev/sda", or the number of a device that has no name.
func (n *deviceNames) name(d device) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, known := n.names[d]; known {
		return name
	}
	number := strconv.FormatUint(uint64(d.major), 10) + ":" + strconv.FormatUint(uint64(d.minor), 10)
	link, err := os.Readlink("/sys/dev/block/" + number)
	if err != nil {
		return number
	}
	name := "/dev/" + filepath.Base(link)
	n.names[d] = name
	return name
}
