package state

import "sync"

// execWatchers passes exec_die events to the callers of WatchExec.
type execWatchers struct {
	mu    sync.Mutex
	waits map[string]chan struct{}
}

// WatchExec returns a channel that is closed when the engine reports the end of the process with this exec id. Call it
// between creating and starting the exec, with one watcher per id. cancel ends the watch. Ask the engine for the exit
// code: a label of the container can replace the code in the event. Events can be lost, so a caller also polls slowly.
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
