package stats

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// processDetail counts what the processes of a container have open.
type processDetail struct {
	processes, descriptors, sockets uint64
	// maxOpenFiles is the soft limit of the first process, nil where it has
	// none.
	maxOpenFiles *uint64
}

// processDetail reads the processes of a container; pid is the first.
func (c *Collector) processDetail(g *group, pid int) *processDetail {
	r := c.readers.Get().(*reader)
	defer c.readers.Put(r)
	var pids []string
	walkProcesses(r, g.processFolder(), &pids)
	detail := &processDetail{processes: uint64(len(pids))}
	if c.metrics.descriptors {
		for _, pid := range pids {
			detail.addDescriptors(filepath.Join(c.proc, pid, "fd"))
		}
	}
	if content, err := r.read(c.procFile(pid, "limits")); err == nil {
		detail.maxOpenFiles = parseOpenFiles(content)
	}
	return detail
}

// processFolder is a folder of the cgroup that all processes are in.
func (g *group) processFolder() string {
	switch {
	case g.v2:
		return g.unified
	case g.memory != "":
		return g.memory
	default:
		return g.cpuacct
	}
}

// walkProcesses appends the processes of a cgroup and of those below, which a
// container may have made.
func walkProcesses(r *reader, folder string, pids *[]string) {
	content, err := r.read(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return
	}
	for line := range lines(content) {
		if pid, ok := parseUint(line); ok && pid > 0 {
			*pids = append(*pids, string(line))
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() {
			walkProcesses(r, filepath.Join(folder, entry.Name()), pids)
		}
	}
}

// addDescriptors adds the open files of a process, which may end meanwhile.
func (d *processDetail) addDescriptors(folder string) {
	handle, err := os.Open(folder)
	if err != nil {
		return
	}
	defer handle.Close()
	names, _ := handle.Readdirnames(-1)
	for _, name := range names {
		d.descriptors++
		if link, err := os.Readlink(filepath.Join(folder, name)); err == nil && strings.HasPrefix(link, "socket:") {
			d.sockets++
		}
	}
}

// parseOpenFiles finds the soft limit of open files in a limits file of
// proc(5).
func parseOpenFiles(content []byte) *uint64 {
	for line := range lines(content) {
		rest, ok := bytes.CutPrefix(line, []byte("Max open files"))
		if !ok {
			continue
		}
		if fields := bytes.Fields(rest); len(fields) > 0 {
			if n, ok := parseUint(fields[0]); ok {
				return &n
			}
		}
	}
	return nil
}
