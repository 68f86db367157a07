package config

import (
	"context"
	"sync"
	"time"
)

// saveSettle is how long changes are collected before they are written down: pods that start change many times.
const saveSettle = 100 * time.Millisecond

// saver writes soon, once for many changes, in a goroutine that lives as long as there is something to write. It is safe
// for concurrent use.
type saver struct {
	// save writes; tell is told when what came of that changed.
	save func() error
	tell func(error)

	running sync.WaitGroup

	mu      sync.Mutex
	dirty   bool
	active  bool
	problem string // of the last try, empty for none
}

// soon has what is known a moment later written, or at once when ctx ends.
func (s *saver) soon(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = true
	if !s.active {
		s.active = true
		s.running.Go(func() { s.run(ctx) })
	}
}

func (s *saver) run(ctx context.Context) {
	for s.wanted() {
		select {
		case <-ctx.Done():
		case <-time.After(saveSettle):
		}
		s.mu.Lock()
		s.dirty = false // what comes from now on is written by another turn
		s.mu.Unlock()
		s.done(s.save())
	}
}

// wanted says whether there is something to write; if not, the goroutine ends.
func (s *saver) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = s.dirty
	return s.dirty
}

func (s *saver) done(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	changed := text != s.problem
	s.problem = text
	s.mu.Unlock()
	if changed {
		s.tell(err)
	}
}

// failed says whether the last try came to nothing.
func (s *saver) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem != ""
}
