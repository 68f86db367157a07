package container

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// procsController is a controller whose cgroups of version 1 every engine puts containers into.
const procsController = "memory"

// procStat has fields of /proc/PID/stat, see proc(5).
type procStat struct {
	pid, parent, session int
	// zombie says that it has ended and was not waited for.
	zombie bool
}

// processesOf lists the processes of the container that has the process pid. They are in its cgroup; where the cgroup
// is not visible they are all of the node's. Processes that end meanwhile are left out.
func (s *Service) processesOf(containerID string, pid int) ([]procStat, error) {
	if s.opts.Cgroups != nil {
		dir, _, err := s.opts.Cgroups.CgroupDir(containerID, pid, procsController)
		if err == nil {
			if pids := cgroupProcesses(dir); len(pids) > 0 {
				return statAll(pids), nil
			}
		}
	}
	return nodeProcesses()
}

// cgroupProcesses lists the processes of a cgroup and of those below, which a
// container may have made. What cannot be read is left out.
func cgroupProcesses(dir string) []int {
	var pids []int
	content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(content) {
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return pids
	}
	for _, entry := range entries {
		if entry.IsDir() {
			pids = append(pids, cgroupProcesses(filepath.Join(dir, entry.Name()))...)
		}
	}
	return pids
}

// nodeProcesses lists the processes of the node.
func nodeProcesses() ([]procStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return statAll(pids), nil
}

func statAll(pids []int) []procStat {
	all := make([]procStat, 0, len(pids))
	for _, pid := range pids {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		if p, ok := parseStat(content); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat reads "pid (comm) state ppid pgrp session …". comm is anything, closing parentheses and blanks included.
func parseStat(content []byte) (procStat, bool) {
	open, end := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')')
	if open < 0 || end < open {
		return procStat{}, false
	}
	fields := bytes.Fields(content[end+1:])
	if len(fields) < 4 {
		return procStat{}, false
	}
	p := procStat{zombie: fields[0][0] == 'Z' || fields[0][0] == 'X'}
	for _, field := range []struct {
		text []byte
		into *int
	}{
		{bytes.TrimSpace(content[:open]), &p.pid},
		{fields[1], &p.parent},
		{fields[3], &p.session},
	} {
		n, err := strconv.Atoi(string(field.text))
		if err != nil {
			return procStat{}, false
		}
		*field.into = n
	}
	return p, true
}
