package stats

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// taskStates are the states of tasks in /proc/PID/stat (proc(5)) with cAdvisor's names. cAdvisor's iowaiting is part of
// uninterruptible.
var taskStates = []string{"sleeping", "running", "stopped", "uninterruptible"}

// processDetail counts the open files and tasks of a container's processes. Nil is unknown.
type processDetail struct {
	processes, descriptors, sockets *uint64
	// tasks counts processes and their threads by state.
	tasks map[string]uint64
	// maxOpenFiles is the soft limit of the first process, nil if it is unlimited or unknown.
	maxOpenFiles *uint64
}

// processDetail reads the processes of a container. pid is the first one.
func (c *Collector) processDetail(g *cgroup, pid int) *processDetail {
	r := c.readers.Get().(*reader)
	defer c.readers.Put(r)
	detail := &processDetail{}
	if pids, err := g.members(r, "cgroup.procs"); err == nil {
		detail.processes = new(uint64(len(pids)))
		if c.metrics.descriptors {
			detail.countDescriptors(c.proc, pids)
		}
	}
	if c.metrics.processes {
		detail.tasks = c.countTasks(r, g)
	}
	if content, err := r.read(c.procFile(pid, "limits")); err == nil {
		detail.maxOpenFiles = parseOpenFiles(content)
	}
	return detail
}

// processDir is the cgroup's directory in a tree that has all of its processes.
func (g *cgroup) processDir() string {
	switch {
	case g.v2:
		return g.unified
	case g.memory != "":
		return g.memory
	default:
		return g.cpuacct
	}
}

// members returns the ids in a file such as cgroup.procs of a cgroup and of its descendants. A container may make and
// remove descendants meanwhile.
func (g *cgroup) members(r *reader, file string) ([]string, error) {
	var ids []string
	err := walkMembers(r, g.processDir(), file, &ids)
	return ids, err
}

func walkMembers(r *reader, dir, file string, ids *[]string) error {
	content, err := r.read(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	for line := range lines(content) {
		if id, ok := parseUint(line); ok && id > 0 {
			*ids = append(*ids, string(line))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			_ = walkMembers(r, filepath.Join(dir, entry.Name()), file, ids) // a descendant may be gone or threaded
		}
	}
	return nil
}

// countTasks counts the tasks of a container by state. It returns nil if they cannot be listed. It does not count
// zombies and tasks that end meanwhile.
func (c *Collector) countTasks(r *reader, g *cgroup) map[string]uint64 {
	file := "cgroup.threads"
	if !g.v2 {
		file = "tasks"
	}
	ids, err := g.members(r, file)
	if err != nil {
		return nil
	}
	tasks := make(map[string]uint64, len(taskStates))
	for _, id := range ids {
		if content, err := r.read(filepath.Join(c.proc, id, "stat")); err == nil {
			if state := parseTaskState(content); state != "" {
				tasks[state]++
			}
		}
	}
	return tasks
}

// parseTaskState returns the state of a task from a stat file of proc(5), "" for an ended task. The state follows the
// name, which may hold any character.
func parseTaskState(content []byte) string {
	end := bytes.LastIndexByte(content, ')')
	if end < 0 || len(content) < end+3 {
		return ""
	}
	return stateNames[content[end+2]]
}

var stateNames = map[byte]string{
	'R': "running", 'S': "sleeping", 'I': "sleeping", 'D': "uninterruptible", 'T': "stopped", 't': "stopped",
}

// countDescriptors counts the open files of processes. It ignores a process that has ended. If a process cannot be read
// for another reason, the sum is unknown.
func (d *processDetail) countDescriptors(proc string, pids []string) {
	var descriptors, sockets uint64
	for _, pid := range pids {
		dir := filepath.Join(proc, pid, "fd")
		names, err := readNames(dir)
		if err != nil && !os.IsNotExist(err) && !errors.Is(err, unix.ESRCH) {
			return
		}
		for _, name := range names {
			descriptors++
			if link, err := os.Readlink(filepath.Join(dir, name)); err == nil && strings.HasPrefix(link, "socket:") {
				sockets++
			}
		}
	}
	d.descriptors, d.sockets = &descriptors, &sockets
}

func readNames(dir string) ([]string, error) {
	handle, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	return handle.Readdirnames(-1)
}

// parseOpenFiles returns the soft limit of open files from a limits file of proc(5).
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
