package eviction

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/meminfo"
)

// observation is a capacity, and the part of it that is available.
type observation struct{ capacity, available int64 }

// machine reads the signals of this machine.
type machine struct {
	// rootDir is on the pods' file system, imageDir on the images' file system.
	rootDir, imageDir string
	// meminfo is the path of /proc/meminfo, and proc is /proc.
	meminfo, proc string
	// allocatable is the memory that pods may have, in bytes; 0 if all of it.
	allocatable int64
	// statfs is unix.Statfs, except in tests.
	statfs func(path string, stat *unix.Statfs_t) error
}

// observe reads all signals. Unreadable signals are missing, and errs says why, by the condition that needs them. A
// file system without an inode limit has no inode signal.
//
// used is the memory that pods use, or nil if it is unknown.
func (m machine) observe(used *int64) (seen map[signal]observation, errs map[v1.NodeConditionType]error) {
	seen = map[signal]observation{}
	memory, memoryErr := m.memory()
	if memoryErr == nil {
		seen[memoryAvailable] = memory
	}
	if m.allocatable > 0 && used != nil {
		seen[allocatableMemory] = observation{m.allocatable, max(0, m.allocatable-*used)}
	}
	pids, limit, pidErr := processIDs(m.proc)
	if pidErr == nil {
		seen[pidAvailable] = observation{limit, max(0, limit-pids)}
	}
	diskErr := errors.Join(m.disk(seen, m.rootDir, nodefsAvailable, nodefsInodesFree),
		m.disk(seen, m.imageDir, imagefsAvailable, imagefsInodesFree))
	return seen, map[v1.NodeConditionType]error{v1.NodeMemoryPressure: memoryErr, v1.NodeDiskPressure: diskErr,
		v1.NodePIDPressure: pidErr}
}

func (m machine) disk(seen map[signal]observation, dir string, space, inodes signal) error {
	var stat unix.Statfs_t
	if err := m.statfs(dir, &stat); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	seen[space] = observation{int64(stat.Blocks) * stat.Frsize, int64(stat.Bavail) * stat.Frsize}
	if stat.Files > 0 {
		seen[inodes] = observation{int64(stat.Files), int64(stat.Ffree)}
	}
	return nil
}

// dedicatedImageDisk reports whether images have their own file system. If so, that file system has the writable
// layers, too.
func (m machine) dedicatedImageDisk() bool {
	var pods, images unix.Stat_t
	if unix.Stat(m.rootDir, &pods) != nil || unix.Stat(m.imageDir, &images) != nil {
		return false
	}
	return pods.Dev != images.Dev
}

// memory returns the node's total memory, and the part outside the working set as available. The working set is all
// used memory without inactive file pages, which the kernel can drop.
func (m machine) memory() (observation, error) {
	amounts, err := meminfo.Read(m.meminfo)
	if err != nil {
		return observation{}, err
	}
	total, free := amounts["MemTotal"], amounts["MemFree"]
	return observation{total, min(total, free+amounts["Inactive(file)"])}, nil
}
