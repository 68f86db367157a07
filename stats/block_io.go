package stats

import "path/filepath"

// deviceIO is the I/O of a cgroup on one block device. Nil is unknown.
type deviceIO struct {
	device      device
	read, write operationIO
	// cost is nil without io.cost. Only cgroup v2 has it.
	cost *ioCostStats
}

// ioCostStats are the counts of io.cost for a device, in nanoseconds.
type ioCostStats struct {
	usage, wait, inDebt, inDelay uint64
}

// operationIO is one direction of deviceIO.
type operationIO struct {
	bytes, operations *uint64
	// The I/O scheduler counts the following fields, with cgroup v1 only.
	merged, queued *uint64
	// serviceTime is in nanoseconds.
	serviceTime *uint64
}

// sectorSize is the kernel's unit of sectors, for every device.
const sectorSize = 512

// sectors returns the bytes in sectors. Block I/O is in whole sectors.
func (o operationIO) sectors() *uint64 {
	if o.bytes == nil {
		return nil
	}
	return new(*o.bytes / sectorSize)
}

// blkioFiles are the files of cgroup v1 and their counts. The throttling layer counts bytes and operations with every
// scheduler. The other files exist with the scheduler BFQ if the kernel is built with CONFIG_BFQ_CGROUP_DEBUG, and with
// CFQ before Linux 5.0.
var blkioFiles = []struct {
	names []string
	count func(*operationIO) **uint64
}{
	{[]string{"blkio.throttle.io_service_bytes_recursive"}, func(o *operationIO) **uint64 { return &o.bytes }},
	{[]string{"blkio.throttle.io_serviced_recursive"}, func(o *operationIO) **uint64 { return &o.operations }},
	{[]string{"blkio.bfq.io_merged_recursive", "blkio.io_merged_recursive"}, func(o *operationIO) **uint64 {
		return &o.merged
	}},
	{[]string{"blkio.bfq.io_queued_recursive", "blkio.io_queued_recursive"}, func(o *operationIO) **uint64 {
		return &o.queued
	}},
	{[]string{"blkio.bfq.io_service_time_recursive", "blkio.io_service_time_recursive"}, func(o *operationIO) **uint64 {
		return &o.serviceTime
	}},
}

// ioV1 joins the files of cgroup v1 by device.
func (g *cgroup) ioV1(r *reader) []deviceIO {
	var all []deviceIO
	index := map[device]int{}
	for _, file := range blkioFiles {
		for key, n := range parseBlkio(g.firstBlkio(r, file.names)) {
			at, known := index[key.device]
			if !known {
				at = len(all)
				index[key.device] = at
				all = append(all, deviceIO{device: key.device})
			}
			direction := &all[at].read
			if key.write {
				direction = &all[at].write
			}
			*file.count(direction) = new(n)
		}
	}
	return all
}

// firstBlkio returns the content of the first file that exists.
func (g *cgroup) firstBlkio(r *reader, names []string) []byte {
	for _, name := range names {
		if content, err := r.read(filepath.Join(g.blkio, name)); err == nil {
			return content
		}
	}
	return nil
}
