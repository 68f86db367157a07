// Package usage finds the processes of engines, and measures the CPU time and memory of processes.
package usage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Engine returns a dockerd with the containerd that it started, without shims and containers.
func Engine(dockerd int) ([]int, error) {
	children, err := find(func(comm string, parent int) bool { return comm == "containerd" && parent == dockerd })
	return append([]int{dockerd}, children...), err
}

// EngineAt is Engine for the rig's engine at an address, unix:///…. The engine's pid file is beside its socket.
func EngineAt(host string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(host, "unix://")), "pid"))
	if err != nil {
		return nil, err
	}
	dockerd, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	return Engine(dockerd)
}

// Shims returns the containerd shims of all engines in this PID namespace.
func Shims() ([]int, error) {
	// The kernel keeps 15 characters of a program's name.
	return find(func(comm string, _ int) bool { return comm == "containerd-shim" })
}

// find returns the processes for which want returns true. want gets the program's name and the parent's process id.
func find(want func(comm string, parent int) bool) ([]int, error) {
	parents, err := Parents()
	if err != nil {
		return nil, err
	}
	var pids []int
	for pid, parent := range parents {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && want(strings.TrimSuffix(string(name), "\n"), parent) { // an error means that it has just ended
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Parents returns each process's parent.
func Parents() (map[int]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		// pid (comm) state ppid …
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			return nil, err
		}
	}
	return parents, nil
}

// CPUTime is the CPU time of all threads of the processes so far, including ended threads.
func CPUTime(pids []int) (time.Duration, error) {
	const schedulerClock = 2 // CPUCLOCK_SCHED of the whole process, see clock_getcpuclockid(3)
	var sum time.Duration
	for _, pid := range pids {
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|schedulerClock), &ts); err != nil {
			return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// Memory is the memory of processes, in KiB.
type Memory struct {
	RSS     int `json:"rssKiB"`
	RSSAnon int `json:"rssAnonKiB"`
}

// MemoryOf adds up the memory of processes.
func MemoryOf(pids []int) (Memory, error) {
	var sum Memory
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return Memory{}, err
		}
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(line, ":")
			kib, _ := strings.CutSuffix(strings.TrimSpace(value), " kB")
			switch name {
			case "VmRSS", "RssAnon":
			default:
				continue
			}
			n, err := strconv.Atoi(kib)
			if err != nil {
				return Memory{}, fmt.Errorf("%s of process %d: %w", name, pid, err)
			}
			if name == "VmRSS" {
				sum.RSS += n
			} else {
				sum.RSSAnon += n
			}
		}
	}
	return sum, nil
}

// ProportionalMemory adds up the processes' shares of the memory that they map (PSS), in KiB.
func ProportionalMemory(pids []int) (int, error) {
	sum := 0
	for _, pid := range pids {
		path := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		kib, err := rolledUp(string(text), "Pss")
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		sum += kib
	}
	return sum, nil
}

// rolledUp reads one line of smaps_rollup.
func rolledUp(text, name string) (int, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
		}
	}
	return 0, fmt.Errorf("no line %s", name)
}
