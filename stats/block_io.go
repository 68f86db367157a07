package stats

import "path/filepath"

// deviceIO is what a cgroup did on one block device. What is nil is unknown.
type deviceIO struct {
	device      device
	read, write operationIO
	// cost is nil without io.cost, which only cgroup v2 has.
	cost *ioCostStats
}

// ioCostStats is what io.cost counts of a device, in nanoseconds.
type ioCostStats struct {
	usage, wait, inDebt, inDelay uint64
}

// operationIO is one direction of deviceIO.
type operationIO struct {
	bytes, operations *uint64
	// The following are counted by the I/O scheduler, which only cgroup v1 has counts of.
	merged, queued *uint64
	// serviceTime is in nanoseconds.
	serviceTime *uint64
}

// sectorSize is what the kernel counts sectors in, whatever the device's.
const sectorSize = 512

// sectors are the bytes once more: block I/O is in whole sectors.
func (o operationIO) sectors() *uint64 {
	if o.bytes == nil {
		return nil
	}
	return new(*o.bytes / sectorSize)
}

// blkioFiles are the files of cgroup v1 and what they count. The kernel's own throttling layer counts bytes and
// operations for every scheduler. The others are there with the scheduler BFQ on kernels that are built with
// CONFIG_BFQ_CGROUP_DEBUG, and with CFQ on those before 5.0.
var blkioFiles = []struct {
	names []string
	count func(*operationIO) **uint64
}{
	{[]string{"blkio.throttle.io_service_bytes_recursive"}, func(o *operationIO) **uint64 { return &o.bytes }},
	{[]string{"blkio.throttle.io_serviced_recursive"}, func(o *operationIO) **uint64 { return &o.operations }},
	{[]string{"blkio.bfq.io_merged_recursive", "blkio.io_merged_recursive"}, func(o *operationIO) **uint64 { return &o.merged }},
	{[]string{"blkio.bfq.io_queued_recursive", "blkio.io_queued_recursive"}, func(o *operationIO) **uint64 { return &o.queued }},
	{[]string{"blkio.bfq.io_service_time_recursive", "blkio.io_service_time_recursive"}, func(o *operationIO) **uint64 { return &o.serviceTime }},
}

// ioV1 joins what the files of cgroup v1 say of each device.
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

// firstBlkio returns the content of the first of some files that is there.
func (g *cgroup) firstBlkio(r *reader, names []string) []byte {
	for _, name := range names {
		if content, err := r.read(filepath.Join(g.blkio, name)); err == nil {
			return content
		}
	}
	return nil
}
