// Package proctable reads the kernel's table of processes.
package proctable

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Stat has fields of /proc/PID/stat, see proc(5).
type Stat struct {
	PID, Parent, Session int
	// zombie says that the process has ended and its parent has not waited for it.
	zombie bool
}

// OfCgroup lists the processes of a cgroup and of the cgroups below it, which a container may have made. It leaves out
// cgroups that it cannot read.
func OfCgroup(dir string) []int {
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
			pids = append(pids, OfCgroup(filepath.Join(dir, entry.Name()))...)
		}
	}
	return pids
}

// All lists the processes of the node.
func All() ([]Stat, error) {
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
	return ReadAll(pids), nil
}

// ReadAll returns the processes with these ids. Ended ones are left out.
func ReadAll(pids []int) []Stat {
	all := make([]Stat, 0, len(pids))
	for _, pid := range pids {
		if p, err := Read(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// parse reads "pid (comm) state ppid pgrp session …". comm may contain any character, even a closing parenthesis or a
// blank.
func parse(content []byte) (Stat, bool) {
	open, end := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')')
	if open < 0 || end < open {
		return Stat{}, false
	}
	fields := bytes.Fields(content[end+1:])
	if len(fields) < 4 {
		return Stat{}, false
	}
	p := Stat{zombie: fields[0][0] == 'Z' || fields[0][0] == 'X'}
	for _, field := range []struct {
		text []byte
		into *int
	}{
		{bytes.TrimSpace(content[:open]), &p.PID},
		{fields[1], &p.Parent},
		{fields[3], &p.Session},
	} {
		n, err := strconv.Atoi(string(field.text))
		if err != nil {
			return Stat{}, false
		}
		*field.into = n
	}
	return p, true
}

// Lives reports whether there is a process pid that is not a zombie.
func Lives(pid int) bool {
	p, err := Read(pid)
	return err == nil && !p.zombie
}

// InContainer is LookInContainer, but returns false instead of an error.
func InContainer(pid int, containerID string) bool {
	inside, err := LookInContainer(pid, containerID)
	return err == nil && inside
}

// LookInContainer reports whether a process is in the container's cgroup. Every engine and cgroup driver puts the
// container's id into the path of that cgroup.
func LookInContainer(pid int, containerID string) (bool, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && bytes.Contains(content, []byte(containerID)), err
}

// Read returns the process pid.
func Read(pid int) (Stat, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	p, ok := parse(content)
	if !ok {
		return Stat{}, fmt.Errorf("/proc/%d/stat is not as proc(5) says", pid)
	}
	return p, nil
}

// Tree returns the ids of the process tree of pid. The tree has pid, and each listed process whose parent or session
// leader is in the tree.
func Tree(all []Stat, pid int) []int {
	in := map[int]bool{pid: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.PID] && (in[p.Parent] || in[p.Session]) {
				in[p.PID] = true
				grown = true
			}
		}
	}
	return slices.Collect(maps.Keys(in))
}
