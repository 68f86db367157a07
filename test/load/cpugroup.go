package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cgroupMount is the directory of control groups.
const cgroupMount = "/sys/fs/cgroup"

// cpuGroup is a cgroup that counts the CPU time of the processes in it and below it, including ended processes.
type cpuGroup struct {
	dir string
	v2  bool
}

// cpuGroupOf returns the group at path in the hierarchy that counts CPU time: cpuacct of version 1, or version 2.
func cpuGroupOf(path string) cpuGroup {
	v1 := filepath.Join(cgroupMount, "cpuacct")
	if _, err := os.Stat(v1); err == nil {
		return cpuGroup{dir: filepath.Join(v1, path)}
	}
	return cpuGroup{dir: filepath.Join(cgroupMount, path), v2: true}
}

// add puts a process into the group. Processes that it starts later are in the group, too.
func (g cpuGroup) add(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// used is the CPU time so far.
func (g cpuGroup) used() (time.Duration, error) {
	file := filepath.Join(g.dir, "cpuacct.usage")
	if g.v2 {
		file = filepath.Join(g.dir, "cpu.stat")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	used, err := parseUsage(string(text), g.v2)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return used, nil
}

// parseUsage reads nanoseconds, or in version 2 a table with microseconds.
func parseUsage(text string, v2 bool) (time.Duration, error) {
	if !v2 {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		return time.Duration(n), err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("no line usage_usec")
}
