package docker

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
)

// maxQueuedEvents bounds the events that wait for a slow handler: about 30 MB.
const maxQueuedEvents = 1 << 15

// eventQueue holds events between the connection and the handler. Putting never
// blocks. It has one reader.
type eventQueue struct {
	mu     sync.Mutex
	events []Event
	err    error
	// changed holds a token while there is something to take.
	changed chan struct{}
}

func newEventQueue() *eventQueue {
	return &eventQueue{changed: make(chan struct{}, 1)}
}

// put appends an event, or ends a queue that is full.
func (q *eventQueue) put(event Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return
	case len(q.events) >= maxQueuedEvents:
		q.err = fmt.Errorf("%w: the events' handler is %d events behind: list again", errdefs.ErrUnavailable,
			maxQueuedEvents)
	default:
		q.events = append(q.events, event)
	}
	q.signal()
}

// end makes take return err after the events that are already in the queue.
func (q *eventQueue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.signal()
}

func (q *eventQueue) signal() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// take waits for events and returns all events in the queue. The error is the one that ended the queue after them.
func (q *eventQueue) take(ctx context.Context) ([]Event, error) {
	select {
	case <-q.changed:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.events
	q.events = nil
	return batch, q.err
}
