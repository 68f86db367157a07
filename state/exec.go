package state

import "sync"

// execWatchers pass exec_die events on.
type execWatchers struct {
	mu    sync.Mutex
	waits map[string]chan struct{}
}

// WatchExec returns a channel that is closed when the engine reports the end of the process with this exec id. How the
// process ended is for the engine to say: a label of the container can replace the event's exit code. Call WatchExec
// between creating and starting the exec, one watcher per id; cancel ends the watch. Events can be lost, so a caller
// also needs a slow look of its own.
func (c *Cache) WatchExec(execID string) (ended <-chan struct{}, cancel func()) {
	return c.execs.watch(execID)
}

func (w *execWatchers) watch(execID string) (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits == nil {
		w.waits = map[string]chan struct{}{}
	}
	ended := make(chan struct{})
	w.waits[execID] = ended
	return ended, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waits, execID)
	}
}

func (w *execWatchers) notify(execID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ended, ok := w.waits[execID]; ok {
		delete(w.waits, execID)
		close(ended)
	}
}
