package nodeapi

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

const (
	// tick is the unit of CPU times in /proc/stat: USER_HZ is 100 on every architecture of Go.
	tick = 10 * time.Millisecond
	// ratePeriod is the shortest period for the rate of CPU use, except right after the start.
	ratePeriod = 10 * time.Second
)

// nodeStats reads the node's stats. It is safe for concurrent use.
type nodeStats struct {
	proc string

	mu sync.Mutex
	// before and last are the kept readings of the CPU times, the older one first. They are equal at first, and later
	// at least ratePeriod apart.
	before, last reading
}

// reading is a CPU time with its timestamp.
type reading struct {
	at   time.Time
	used time.Duration
}

// newNodeStats reads below proc, which is /proc except in tests. It takes a first reading, for rates.
func newNodeStats(proc string) *nodeStats {
	n := &nodeStats{proc: proc}
	if now, _, err := n.processors(); err == nil { // errors are logged when stats are requested
		n.before, n.last = now, now
	}
	return n
}

// stats returns the node's stats without file systems. Missing values are left out.
func (n *nodeStats) stats(ctx context.Context, name string) statsapi.NodeStats {
	out := statsapi.NodeStats{NodeName: name}
	now, booted, err := n.processors()
	if err != nil {
		log.G(ctx).WithError(err).Warn("cannot read the node's CPU usage")
	} else {
		out.StartTime = metav1.NewTime(booted)
		out.CPU = &statsapi.CPUStats{Time: metav1.NewTime(now.at), UsageCoreNanoSeconds: new(uint64(now.used)),
			UsageNanoCores: n.rate(now)}
	}
	if out.Memory, out.Swap, err = n.memory(); err != nil {
		log.G(ctx).WithError(err).Warn("cannot read the node's memory usage")
	}
	return out
}

// rate returns the average CPU use in nanocores between before and now. If last is at least ratePeriod old, it first
// shifts the readings: last becomes before, and now becomes last. rate returns nil if before is not set, if too little
// time has passed, or if the CPU times went back.
func (n *nodeStats) rate(now reading) *uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	since := n.before
	if now.at.Sub(n.last.at) >= ratePeriod {
		n.before, n.last = n.last, now
		since = n.before
	}
	passed := now.at.Sub(since.at)
	if since.at.IsZero() || passed < 10*tick || now.used < since.used {
		return nil
	}
	return new(uint64(float64(now.used-since.used) / passed.Seconds()))
}

// processors reads the CPU time in use and the time of the boot.
func (n *nodeStats) processors() (now reading, booted time.Time, err error) {
	content, err := os.ReadFile(filepath.Join(n.proc, "stat"))
	if err != nil {
		return reading{}, time.Time{}, err
	}
	now.at = time.Now()
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 7 && fields[0] == "cpu":
			// The fields are user, nice, system, idle, iowait, irq, softirq. Later fields are stolen time, or included
			// in user.
			for _, i := range []int{1, 2, 3, 6, 7} {
				ticks, err := strconv.ParseUint(fields[i], 10, 63)
				if err != nil {
					return reading{}, time.Time{}, fmt.Errorf("%s/stat: %w", n.proc, err)
				}
				now.used += time.Duration(ticks) * tick
			}
		case len(fields) == 2 && fields[0] == "btime":
			seconds, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return reading{}, time.Time{}, fmt.Errorf("%s/stat: %w", n.proc, err)
			}
			booted = time.Unix(seconds, 0)
		}
	}
	return now, booted, nil
}

// memory reads the machine's memory use. Usage is everything that is not free. The working set leaves out page cache
// that could be dropped at once, so available is the total minus the working set.
func (n *nodeStats) memory() (*statsapi.MemoryStats, *statsapi.SwapStats, error) {
	info, err := n.numbers("meminfo", 1024)
	if err != nil {
		return nil, nil, err
	}
	events, err := n.numbers("vmstat", 1)
	if err != nil {
		return nil, nil, err
	}
	total, used := info["MemTotal"], difference(info["MemTotal"], info["MemFree"])
	working := difference(used, info["Inactive(file)"])
	now := metav1.Now()
	memory := &statsapi.MemoryStats{
		Time: now, AvailableBytes: new(difference(total, working)), UsageBytes: &used, WorkingSetBytes: &working,
		RSSBytes: new(info["AnonPages"]), PageFaults: new(events["pgfault"]),
		MajorPageFaults: new(events["pgmajfault"]),
	}
	swap := &statsapi.SwapStats{Time: now, SwapAvailableBytes: new(info["SwapFree"]),
		SwapUsageBytes: new(difference(info["SwapTotal"], info["SwapFree"]))}
	return memory, swap, nil
}

// numbers reads a file with a name and a number in each line, and multiplies each number by unit.
func (n *nodeStats) numbers(name string, unit uint64) (map[string]uint64, error) {
	content, err := os.ReadFile(filepath.Join(n.proc, name))
	if err != nil {
		return nil, err
	}
	values := map[string]uint64{}
	for line := range bytes.Lines(content) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		value, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", n.proc, name, err)
		}
		values[strings.TrimSuffix(fields[0], ":")] = value * unit
	}
	return values, nil
}

// difference returns a-b, but at least zero: the kernel does not read its counters at the same instant.
func difference(a, b uint64) uint64 { return a - min(a, b) }
