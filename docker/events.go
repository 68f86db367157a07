package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// Events implements System.
//
// A goroutine reads events as fast as the engine writes them, because the engine drops events that a slow reader does
// not read. Handle runs in the caller's goroutine. If it is maxQueuedEvents behind, the stream ends with
// ErrUnavailable, so that no event is lost silently.
func (c *Client) Events(ctx context.Context, opts EventsOptions) error {
	o := op{verb: "watch events", endless: true}
	return c.do(ctx, o, func(ctx context.Context, s *session) error {
		ctx, cancel := context.WithCancel(ctx)
		queue := newEventQueue()
		subscription, err := c.subscribe(ctx, cancel, s, opts.Since)
		if err != nil {
			cancel()
			return err
		}
		pumped := make(chan struct{})
		go func() {
			defer close(pumped)
			pump(subscription, queue, func() { c.renew(ctx) })
		}()
		defer func() {
			cancel()
			<-pumped
		}()
		if opts.Subscribed != nil {
			opts.Subscribed()
		}
		return deliver(ctx, queue, func(event Event) {
			if event.Kind == ContainerRemoved {
				s.forgetNote(ctx, event.ID) // whichever client removed it
			}
			opts.Handle(event)
		})
	})
}

// subscribe requests the stream and waits until the engine has accepted the request, at most for the request timeout.
// The engine sends the HTTP status a moment before it subscribes the connection. So the request always names a time to
// replay from, and no event is lost in between.
func (c *Client) subscribe(
	ctx context.Context, cancel context.CancelFunc, s *session, since time.Time,
) (client.EventsResult, error) {
	if since.IsZero() {
		since = time.Now()
	}
	statusCtx, status := withResponseStatus(ctx)
	impatient := time.AfterFunc(c.timeout, cancel)
	result := s.api.Events(statusCtx, client.EventsListOptions{
		Since:   fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond()),
		Filters: eventFilters(),
	})
	if !impatient.Stop() {
		return result, fmt.Errorf("%w: no answer within %s", errdefs.ErrUnavailable, c.timeout)
	}
	if status.take() != http.StatusOK {
		err := <-result.Err
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return result, err
	}
	return result, nil
}

// pump moves events into the queue until the stream ends, and then adds the stream's error. The stream ends with its
// context. pump calls reloaded for a reload of the engine's configuration, and does not queue that event.
func pump(stream client.EventsResult, queue *eventQueue, reloaded func()) {
	for {
		select {
		case message := <-stream.Messages:
			if message.Type == events.DaemonEventType {
				reloaded()
			} else if event, ok := normalise(message); ok {
				queue.put(event)
			}
		case err := <-stream.Err:
			if err == nil || errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: the engine ended the event stream", io.ErrUnexpectedEOF)
			}
			queue.end(err)
			return
		}
	}
}

// deliver passes events to handle until the queue ends, and returns the queue's error.
func deliver(ctx context.Context, queue *eventQueue, handle func(Event)) error {
	for {
		batch, err := queue.take(ctx)
		for _, event := range batch {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			handle(event)
		}
		if err != nil {
			return err
		}
	}
}

// eventKinds has the API's names of the events that criadapter uses. It is read-only.
var eventKinds = map[events.Type]map[events.Action]EventKind{
	events.ContainerEventType: {
		events.ActionCreate:  ContainerCreated,
		events.ActionStart:   ContainerStarted,
		events.ActionDie:     ContainerDied,
		events.ActionOOM:     ContainerOOM,
		events.ActionPause:   ContainerPaused,
		events.ActionUnPause: ContainerResumed,
		events.ActionUpdate:  ContainerUpdated,
		events.ActionRename:  ContainerRenamed,
		events.ActionDestroy: ContainerRemoved,
		events.ActionExecDie: ExecDied,
	},
	events.ImageEventType: {
		events.ActionCreate: ImageChanged,
		events.ActionPull:   ImageChanged,
		events.ActionLoad:   ImageChanged,
		events.ActionImport: ImageChanged,
		events.ActionTag:    ImageChanged,
		events.ActionUnTag:  ImageChanged,
		events.ActionDelete: ImageChanged,
	},
}

// eventFilters selects the events of eventKinds and reloads of daemon.json only. Otherwise most of the stream would be
// events of probes (exec_create, exec_start) and of networks.
func eventFilters() client.Filters {
	filters := make(client.Filters)
	filters.Add("type", string(events.DaemonEventType))
	filters.Add("event", string(events.ActionReload))
	for kind, actions := range eventKinds {
		filters.Add("type", string(kind))
		for action := range actions {
			filters.Add("event", string(action))
		}
	}
	return filters
}

// normalise turns the engine's event into an Event. It returns false for an event that is not in eventKinds: filters
// select types and names, but not their combinations.
func normalise(message events.Message) (Event, bool) {
	kind, ok := eventKinds[message.Type][message.Action]
	if !ok || message.Actor.ID == "" {
		return Event{}, false
	}
	event := Event{Kind: kind, ID: message.Actor.ID, Labels: message.Actor.Attributes, Time: eventTime(message)}
	if kind == ExecDied {
		event.ExecID = message.Actor.Attributes["execID"]
	}
	return event, true
}

func eventTime(message events.Message) time.Time {
	if message.TimeNano != 0 {
		return time.Unix(0, message.TimeNano)
	}
	return time.Unix(message.Time, 0)
}
