package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/soak/history"
)

const (
	// patience bounds the time until the node is as it should be again after a fault: kubelets try again in seconds or
	// minutes, the longer the more often something failed.
	patience = 6 * time.Minute
	// look is how long is waited before a look is taken again.
	look = 500 * time.Millisecond
)

// both are the two histories with what is compared beside them.
type both struct {
	engine   *engineWatch
	pods     *podWatch
	logs     *logs
	workload *workload
	// faults are the times of faults, engineEnds when the engine ended.
	faults     []history.Window
	engineEnds []time.Time
}

// differences compares everything at this moment, also what is not settled yet.
func (b *both) differences(ctx context.Context) (differences []history.Difference, open error) {
	open = b.workload.settled(ctx)
	differences = history.Now(b.engine.engine, b.pods.api)
	differences = append(differences, b.logs.compare(b.pods.api.Pods(), b.engineEnded)...)
	differences = append(differences, b.whole().Differences...)
	return differences, open
}

// whole compares all that happened.
func (b *both) whole() history.Verdict {
	verdict := history.Whole(b.engine.engine, b.pods.api, b.faults)
	verdict.Differences = append(verdict.Differences, slices.Collect(maps.Values(b.workload.wrong))...)
	return verdict
}

// engineEnded says whether the engine ended since a moment.
func (b *both) engineEnded(since time.Time) bool {
	return slices.ContainsFunc(b.engineEnds, since.Before)
}

// quiet waits until everything is settled and nothing differs. What still does when patience is over is the error.
func (b *both) quiet(ctx context.Context) error {
	end := time.Now().Add(patience)
	for {
		differences, open := b.differences(ctx)
		if open == nil && len(differences) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return &notQuiet{differences: history.Sorted(differences), open: open}
		}
		if err := program.Sleep(ctx, look); err != nil {
			return err
		}
	}
}

// notQuiet is what differs, and what is not settled, although there was time.
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
