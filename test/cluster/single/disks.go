package single

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The names of disks. Each is named for the files on it.
const (
	KubeletDisk = "kubelet"
	LogDisk     = "logs"
	StateDisk   = "state"
)

// Disks are the mount points of small disks by name: the directories of the kubelet, of container logs and of
// criadapter. There are none without Options.Disk.
func (c *Cluster) Disks() map[string]string {
	if c.opts.Disk == 0 {
		return nil
	}
	disks := map[string]string{KubeletDisk: c.KubeletRoot, LogDisk: c.PodLogs}
	if c.Server.Adapter != nil {
		disks[StateDisk] = c.Server.Adapter.RootDir
	}
	return disks
}

// mountDisk mounts a disk on an empty directory, unless size is 0.
func mountDisk(dir string, size int64) (unmount func() error, err error) {
	if size == 0 {
		return func() error { return nil }, nil
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("mode=0755,size=%d", size)); err != nil {
		return nil, fmt.Errorf("a disk of %d bytes on %s: %w", size, dir, err)
	}
	return func() error { return unix.Unmount(dir, unix.MNT_DETACH) }, nil
}
