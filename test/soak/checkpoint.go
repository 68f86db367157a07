package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/soak/history"
)

const (
	// patience bounds the time until the node has recovered from a fault. A kubelet's back-off grows with each failure,
	// from seconds to minutes.
	patience = 6 * time.Minute
	// look is the pause between two comparisons.
	look = 500 * time.Millisecond
)

// histories has the histories of the engine and of the API server, and the logs and the workload that are compared.
type histories struct {
	engine   *engineWatch
	pods     *podWatch
	logs     *logs
	workload *workload
	// faults has the time of each fault, and engineEnds the beginning of each fault that ended the engine.
	faults     []history.Window
	engineEnds []time.Time
}

// differences compares everything at this moment. open says what is not settled yet.
func (b *histories) differences(ctx context.Context) (differences []history.Difference, open error) {
	open = b.workload.settled(ctx)
	differences = history.Now(b.engine.engine, b.pods.api)
	differences = append(differences, b.logs.compare(b.pods.api.Pods(), b.engine.engine.Containers(), b.engineEnded)...)
	differences = append(differences, b.compareAll().Differences...)
	return differences, open
}

// compareAll compares the whole histories.
func (b *histories) compareAll() history.Verdict {
	verdict := history.Whole(b.engine.engine, b.pods.api, b.faults)
	verdict.Differences = append(verdict.Differences, slices.Collect(maps.Values(b.workload.wrong))...)
	return verdict
}

// engineEnded says whether the engine ended since a moment.
func (b *histories) engineEnded(since time.Time) bool {
	return slices.ContainsFunc(b.engineEnds, since.Before)
}

// quiet waits until everything is settled and nothing differs. When patience is over, its error lists what still
// differs.
func (b *histories) quiet(ctx context.Context) error {
	end := time.Now().Add(patience)
	for {
		differences, open := b.differences(ctx)
		if open == nil && len(differences) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return &notQuiet{differences: history.Sorted(differences), open: open}
		}
		if err := pace.Sleep(ctx, look); err != nil {
			return err
		}
	}
}

// notQuiet has the differences, and what is not settled, at the end of patience.
type notQuiet struct {
	differences []history.Difference
	open        error
}

func (e *notQuiet) Error() string {
	text := fmt.Sprintf("not quiet within %v: %d differences", patience, len(e.differences))
	for _, d := range e.differences {
		text += "\n  " + d.String()
	}
	if e.open != nil {
		text += "\n" + e.open.Error()
	}
	return text
}
