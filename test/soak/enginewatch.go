package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/soak/history"
)

// lookTimeout bounds each question to an engine that may hang.
const lookTimeout = 10 * time.Second

// engineWatch feeds a history with the engine's containers. It connects again when the engine is back.
type engineWatch struct {
	engine *history.Engine
	api    *client.Client
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func watchEngine(ctx context.Context, host string) (*engineWatch, error) {
	api, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &engineWatch{engine: &history.Engine{}, api: api, cancel: cancel}
	w.ended.Go(func() { w.follow(ctx) })
	return w, nil
}

func (w *engineWatch) close() error {
	w.cancel()
	w.ended.Wait()
	return w.api.Close()
}

// follow reads events. After each connect it lists all containers, which shows the changes since the last event.
func (w *engineWatch) follow(ctx context.Context) {
	since := time.Now()
	for ctx.Err() == nil {
		within, cancel := context.WithCancel(ctx)
		stream := w.api.Events(within, client.EventsListOptions{
			Since:   fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond()),
			Filters: make(client.Filters).Add("type", string(events.ContainerEventType)),
		})
		began := time.Now()
		if w.look(within) == nil {
			since = began.Add(-time.Second) // events that come again change nothing
			w.read(within, stream)
		}
		cancel()
		_ = pace.Sleep(ctx, 100*time.Millisecond)
	}
}

// read takes events until the stream ends.
func (w *engineWatch) read(ctx context.Context, stream client.EventsResult) {
	for {
		select {
		case event := <-stream.Messages:
			w.take(event)
		case <-stream.Err:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (w *engineWatch) take(event events.Message) {
	id, labels, at := event.Actor.ID, event.Actor.Attributes, time.Unix(0, event.TimeNano)
	switch event.Action {
	case events.ActionCreate:
		w.engine.See(id, labels["name"], labels, at)
	case events.ActionStart:
		w.engine.Start(id, at)
	case events.ActionDie:
		if code, err := strconv.Atoi(labels["exitCode"]); err == nil {
			w.engine.End(id, at, code)
		}
	case events.ActionDestroy:
		w.engine.Remove(id)
	}
}

// look lists and inspects all containers.
func (w *engineWatch) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	list, err := w.api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return err
	}
	var ids []string
	for _, c := range list.Items {
		ids = append(ids, c.ID)
		name := ""
		if len(c.Names) > 0 {
			name = c.Names[0]
		}
		w.engine.See(c.ID, name, c.Labels, time.Unix(c.Created, 0))
		one, err := w.api.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			continue // its event comes
		}
		if err != nil {
			return err
		}
		w.inspected(c.ID, one.Container.State)
	}
	w.engine.Existing(ids)
	return nil
}

func (w *engineWatch) inspected(id string, state *container.State) {
	if state == nil {
		return
	}
	if started, err := stamp(state.StartedAt); err == nil {
		w.engine.Inspect(id, started)
	}
	if ended, err := stamp(state.FinishedAt); err == nil && !state.Running {
		w.engine.End(id, ended, state.ExitCode)
	}
}

// stamp parses a time. The zero time, with which the engine means "never", is an error.
func stamp(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err == nil && at.Year() <= 1 {
		err = errors.New("never")
	}
	return at, err
}
