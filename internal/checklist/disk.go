package checklist

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is the filesystem of a directory.
type Disk struct {
	Path string
	// Free and Total count bytes, FreeInodes and Inodes count files. Inodes is 0 for a filesystem without a limit of
	// files.
	Free, Total, FreeInodes, Inodes uint64
	// Memory is true for a filesystem in memory, which loses its content at a reboot.
	Memory bool
	// Err says why the filesystem cannot be read.
	Err error
}

// DiskOf reads the filesystem of a directory, or of its nearest existing parent.
func DiskOf(path string) Disk {
	d := Disk{Path: path}
	var stat unix.Statfs_t
	for at := path; ; at = filepath.Dir(at) {
		err := unix.Statfs(at, &stat)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENOENT) || at == filepath.Dir(at) {
			d.Err = &os.PathError{Op: "statfs", Path: at, Err: err}
			return d
		}
	}
	size := uint64(stat.Frsize)
	d.Free, d.Total = stat.Bavail*size, stat.Blocks*size
	d.FreeInodes, d.Inodes = stat.Ffree, stat.Files
	d.Memory = stat.Type == unix.TMPFS_MAGIC || stat.Type == unix.RAMFS_MAGIC
	return d
}

// FreeSpace returns the free share of the bytes in percent, 100 for a filesystem without a size.
func (d Disk) FreeSpace() uint64 { return percent(d.Free, d.Total) }

// FreeFiles returns the free share of the inodes in percent, 100 for a filesystem without a limit.
func (d Disk) FreeFiles() uint64 { return percent(d.FreeInodes, d.Inodes) }

func percent(part, whole uint64) uint64 {
	if whole == 0 {
		return 100
	}
	return part * 100 / whole
}

// Space writes the free space for a person.
func (d Disk) Space() string {
	return fmt.Sprintf("%s: %s of %s free (%d %%)", d.Path, size(d.Free), size(d.Total), d.FreeSpace())
}

// size formats n bytes in GB, or in MB below 1 GB.
func size(n uint64) string {
	if n < 1e9 {
		return fmt.Sprintf("%d MB", n/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
