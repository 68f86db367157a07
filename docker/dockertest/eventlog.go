package dockertest

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
)

// keptEvents is how many events an engine remembers for later subscribers.
const keptEvents = 256

// eventLog keeps the last events and passes them to the listeners.
type eventLog struct {
	mu      sync.Mutex
	kept    []docker.Event
	streams map[*eventStream]struct{}
}

type eventStream struct {
	queued []docker.Event
	broken bool
	wake   chan struct{}
}

// add publishes an event.
func (l *eventLog) add(event docker.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, event)
	if len(l.kept) > keptEvents {
		l.kept = l.kept[len(l.kept)-keptEvents:]
	}
	for stream := range l.streams {
		stream.queued = append(stream.queued, event)
		stream.signal()
	}
}

// breakStreams ends all streams.
func (l *eventLog) breakStreams() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for stream := range l.streams {
		stream.broken = true
		stream.signal()
	}
	clear(l.streams)
}

// forget drops the kept events, like an engine that restarts.
func (l *eventLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = nil
}

// listen opens a stream with the kept events at or after opts.Since.
func (l *eventLog) listen(opts docker.EventsOptions) *eventStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	stream := &eventStream{wake: make(chan struct{}, 1)}
	if !opts.Since.IsZero() {
		for _, event := range l.kept {
			if !event.Time.Before(opts.Since) {
				stream.queued = append(stream.queued, event)
			}
		}
	}
	stream.signal()
	l.streams[stream] = struct{}{}
	return stream
}

func (l *eventLog) close(stream *eventStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, stream)
}

// take returns the waiting events, and whether the stream goes on.
func (l *eventLog) take(stream *eventStream) ([]docker.Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queued := stream.queued
	stream.queued = nil
	return queued, !stream.broken
}

func (s *eventStream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Events implements docker.System.
func (e *Engine) Events(ctx context.Context, opts docker.EventsOptions) error {
	if _, err := e.enter(ctx, "Events", ""); err != nil {
		return err
	}
	stream := e.log.listen(opts)
	defer e.log.close(stream)
	if e.isAway() {
		// The engine went away between enter and listen, and ended all streams before this one was open.
		return fmt.Errorf("Events: %w: the engine is away", errdefs.ErrUnavailable)
	}
	if opts.Subscribed != nil {
		opts.Subscribed()
	}
	for {
		select {
		case <-stream.wake:
		case <-ctx.Done():
			return fmt.Errorf("Events: %w", ctx.Err())
		}
		queued, goesOn := e.log.take(stream)
		for _, event := range queued {
			opts.Handle(event)
		}
		if !goesOn {
			return fmt.Errorf("Events: %w: the engine ended the stream", errdefs.ErrUnavailable)
		}
	}
}
