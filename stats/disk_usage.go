package stats

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/mountquote"
)

// diskUsage is the disk space and inodes of a directory.
type diskUsage struct {
	bytes, inodes uint64
}

// countDir adds up a directory and everything below it on the same device. A file with several names counts once. A
// file that vanishes meanwhile does not count.
func countDir(ctx context.Context, root string) (diskUsage, error) {
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
		const blockSize = 512 // the unit of st_blocks on every filesystem
		sum.bytes += uint64(stat.Blocks) * blockSize
		sum.inodes++
		return nil
	})
	return sum, err
}

// unlessFirst ignores the error of a vanished file. It returns the error if the file is the first one, the directory
// that is counted.
func unlessFirst(err error, first bool) error {
	if !first && os.IsNotExist(err) {
		return nil
	}
	return err
}

// filesystem is the size of a filesystem.
type filesystem struct {
	device device
	bytes  uint64
	// inodes are nil on a filesystem without a fixed number of them (btrfs).
	inodes, freeInodes *uint64
}

func filesystemOf(dir string) (filesystem, error) {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return filesystem{}, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	var statfs unix.Statfs_t
	if err := unix.Statfs(dir, &statfs); err != nil {
		return filesystem{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	f := filesystem{
		device: device{unix.Major(stat.Dev), unix.Minor(stat.Dev)},
		bytes:  statfs.Blocks * uint64(statfs.Frsize),
	}
	if statfs.Files > 0 {
		f.inodes, f.freeInodes = &statfs.Files, &statfs.Ffree
	}
	return f, nil
}

// upperOf finds the directory of a running container's writable layer, if the container's root is an overlay. It also
// returns the type of the root filesystem. Both are "" if the process is gone.
func upperOf(proc string, pid int) (upper, filesystem string) {
	if pid <= 0 {
		return "", ""
	}
	mounts, err := readMounts(proc, strconv.Itoa(pid), nil)
	if err != nil {
		return "", ""
	}
	return findUpper(mounts)
}

// findUpper finds the upper directory of an overlay on "/", and the type of the filesystem. It ignores a relative upper
// directory, because its base is unknown.
func findUpper(mounts []*mountinfo.Info) (upper, filesystem string) {
	for _, mount := range mounts {
		if mount.Mountpoint != "/" {
			continue
		}
		upper, filesystem = "", mount.FSType // the last one is on top
		if mount.FSType != "overlay" {
			continue
		}
		for option := range strings.SplitSeq(mount.VFSOptions, ",") {
			if dir, ok := strings.CutPrefix(option, "upperdir="); ok && filepath.IsAbs(dir) {
				upper = mountquote.Unquote(dir)
			}
		}
	}
	return upper, filesystem
}

// blockDevices is the kernel's directory of links from the numbers of block devices to the devices.
const blockDevices = "/sys/dev/block"

// deviceNames maps block devices to their names, for one answer. Later the kernel may give the number of a removed
// device to another one, as with device mapper.
type deviceNames struct {
	dir   string // blockDevices, except in tests
	names map[device]string
}

func newDeviceNames(dir string) *deviceNames {
	return &deviceNames{dir: dir, names: map[device]string{}}
}

// name returns "/dev/sda", or the number of a device without a name.
func (n *deviceNames) name(d device) string {
	if name, known := n.names[d]; known {
		return name
	}
	name := strconv.FormatUint(uint64(d.major), 10) + ":" + strconv.FormatUint(uint64(d.minor), 10)
	if link, err := os.Readlink(filepath.Join(n.dir, name)); err == nil {
		name = "/dev/" + filepath.Base(link)
	}
	n.names[d] = name
	return name
}
