package podconfig

import (
	"context"
	"sync"
	"time"
)

// writeDelay is the time for which changes are collected before a write: pods change many times while they start.
const writeDelay = 100 * time.Millisecond

// checkpointWriter combines changes into one write. Its goroutine runs only while a change is unwritten. It is safe for
// concurrent use.
type checkpointWriter struct {
	// save writes the checkpoint. report is called when the outcome of save changes.
	save   func() error
	report func(context.Context, error)

	running sync.WaitGroup

	mu      sync.Mutex
	dirty   bool
	active  bool
	problem string // of the last call of save, or empty
}

// schedule makes the goroutine write after writeDelay, or at once when ctx ends.
func (w *checkpointWriter) schedule(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty = true
	if !w.active {
		w.active = true
		w.running.Go(func() { w.run(ctx) })
	}
}

func (w *checkpointWriter) run(ctx context.Context) {
	for w.wanted() {
		select {
		case <-ctx.Done():
		case <-time.After(writeDelay):
		}
		w.mu.Lock()
		w.dirty = false // later changes are written in the next turn
		w.mu.Unlock()
		w.done(ctx, w.save())
	}
}

// wanted reports whether a change is unwritten. If not, the goroutine ends.
func (w *checkpointWriter) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = w.dirty
	return w.dirty
}

func (w *checkpointWriter) done(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	changed := text != w.problem
	w.problem = text
	w.mu.Unlock()
	if changed {
		w.report(ctx, err)
	}
}

// failed reports whether the last write failed.
func (w *checkpointWriter) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problem != ""
}
