package state

import "sync"

// execWatchers hand the exit codes of exec_die events to those who wait.
type execWatchers struct {
	mu    sync.Mutex
	waits map[string]chan int
}

// WatchExec returns a channel that gets the exit code of the process with this exec id when the engine reports its end.
// Call it between creating and starting the exec, one watcher per id; cancel ends the watch. Events can be lost, so a
// caller also needs a slow look of its own.
func (c *Cache) WatchExec(execID string) (exit <-chan int, cancel func()) {
	return c.execs.watch(execID)
}

func (w *execWatchers) watch(execID string) (<-chan int, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits == nil {
		w.waits = map[string]chan int{}
	}
	exit := make(chan int, 1)
	w.waits[execID] = exit
	return exit, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waits, execID)
	}
}

func (w *execWatchers) notify(execID string, code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if exit, ok := w.waits[execID]; ok {
		delete(w.waits, execID)
		exit <- code // has room: one value per watch
	}
}
