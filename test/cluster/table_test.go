package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// verdict is the result of a step on one kind of node. The zero value means that it was not run there.
type verdict string

const (
	passed  verdict = "passed"
	failed  verdict = "FAILED"
	skipped verdict = "skipped"
)

// table collects verdicts by step and kind of node. It is safe for concurrent use.
type table struct {
	mu    sync.Mutex
	cells map[string]map[kind]verdict
}

// record adds the verdict of a test when it has ended.
func (r *table) record(t *testing.T, step string, on kind) {
	t.Cleanup(func() {
		got := passed
		switch {
		case t.Failed():
			got = failed
		case t.Skipped():
			got = skipped
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.cells == nil {
			r.cells = make(map[string]map[kind]verdict)
		}
		if r.cells[step] == nil {
			r.cells[step] = make(map[kind]verdict)
		}
		r.cells[step][on] = got
	})
}

// String is the table, with the counts as its last line. It is empty if nothing was recorded.
func (r *table) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cells) == 0 {
		return ""
	}
	var b strings.Builder
	counts := make(map[verdict]int)
	fmt.Fprintf(&b, "\n%-44s", "step")
	for _, kind := range kinds {
		fmt.Fprintf(&b, " %-13s", kind)
	}
	b.WriteString("\n")
	for _, step := range steps {
		row, ran := r.cells[step.name]
		if !ran {
			continue
		}
		fmt.Fprintf(&b, "%-44s", step.name)
		for _, kind := range kinds {
			got := row[kind]
			counts[got]++
			if got == "" {
				got = "-"
			}
			fmt.Fprintf(&b, " %-13s", got)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n%d passed, %d failed", counts[passed], counts[failed])
	if counts[skipped] > 0 {
		fmt.Fprintf(&b, ", %d skipped", counts[skipped])
	}
	b.WriteString("\n")
	return b.String()
}
