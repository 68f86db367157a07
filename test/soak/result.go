package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/criadapter/criadapter/test/rig/footprint"
)

// result is the table at the end. The count of faults is safe for concurrent use.
type result struct {
	opts         options
	began        time.Time
	mu           sync.Mutex // guards faults
	faults       map[string]int
	checkpoints  int
	first, last  footprint.Figures
	left         int
	leftByEngine int
}

func newResult(opts options) *result {
	return &result{opts: opts, began: time.Now(), faults: make(map[string]int)}
}

func (r *result) fault(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[kind]++
}

func (r *result) faultsSoFar() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, count := range r.faults {
		n += count
	}
	return n
}

func (r *result) checkpoint(used footprint.Figures) {
	r.checkpoints++
	if r.last = used; r.first == nil {
		r.first = used
	}
}

// counts has figures of the two histories.
type counts struct{ pods, containers, running, restarts int }

func count(b *histories) (c counts) {
	for _, p := range b.pods.api.Pods() {
		c.pods++
		for _, reported := range p.Current {
			c.restarts += reported.Restarts
		}
	}
	for _, container := range b.engine.engine.Containers() {
		if container.Sandbox || container.Started.IsZero() {
			continue
		}
		c.containers++
		if container.Running {
			c.running++
		}
	}
	return c
}

// progress is the line that is printed each minute.
func progress(b *histories, faults int) string {
	c := count(b)
	return fmt.Sprintf("so far %d faults, %d pods, %d containers of which %d run, %d restarts", faults, c.pods,
		c.containers, c.running, c.restarts)
}

// print prints the table.
func (r *result) print(to io.Writer, b *histories) {
	c, verdict := count(b), b.compareAll()
	lines, lost := b.logs.sums()
	fmt.Fprintf(to, "\n| soak, SEED=%d, %v | |\n|---|---|\n", r.opts.seed, time.Since(r.began).Round(time.Second))
	row := func(name string, value any) { fmt.Fprintf(to, "| %s | %v |\n", name, value) }
	for _, kind := range kinds() {
		row(kind, r.faults[kind])
	}
	row("checkpoints", r.checkpoints)
	row("pods", c.pods)
	row("containers that ran", c.containers)
	row("restarts", c.restarts)
	row("containers compared", verdict.Compared)
	row("logs compared", len(b.logs.seen))
	row("lines in them", lines)
	row("lines lost by an engine that ended", lost)
	for _, reason := range slices.Sorted(maps.Keys(verdict.Excused)) {
		row("excused: "+reason, verdict.Excused[reason])
	}
	row("differences", len(verdict.Differences))
	row("left over", r.left)
	row("left by engine starts that were interrupted", r.leftByEngine)
	for _, name := range []string{footprint.ResidentMemory, footprint.Goroutines, footprint.Descriptors,
		footprint.Threads, footprint.StateOnDisk} {
		row("criadapter: "+name+", first and last checkpoint", fmt.Sprintf("%.0f, %.0f", r.first[name], r.last[name]))
	}
}
