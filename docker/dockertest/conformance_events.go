package dockertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	api "github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// watcher collects the events of the containers of a suite.
type watcher struct {
	mu     sync.Mutex
	events []docker.Event
}

func (w *watcher) add(event docker.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event)
}

// of returns the events with that id so far.
func (w *watcher) of(id string) []docker.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.events), func(e docker.Event) bool { return e.ID != id })
}

func (w *watcher) kinds(id string) []docker.EventKind {
	var kinds []docker.EventKind
	for _, event := range w.of(id) {
		kinds = append(kinds, event.Kind)
	}
	return kinds
}

// watch collects the events from since until the test ends. When watch returns, the engine has accepted the stream.
func (s *suite) watch(t *testing.T, since time.Time) *watcher {
	t.Helper()
	w := &watcher{}
	ctx, cancel := context.WithCancel(context.Background()) // the cleanup below ends it
	accepted, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Engine.Events(ctx, docker.EventsOptions{
			Since: since, Subscribed: func() { close(accepted) }, Handle: w.add,
		})
	}()
	t.Cleanup(func() {
		cancel()
		wantError(t, "Events", <-ended, context.Canceled)
	})
	select {
	case <-accepted:
	case err := <-ended:
		ended <- err
		t.Fatalf("Events: %v", err)
	case <-time.After(patience):
		t.Fatal("the subscription is not accepted")
	}
	return w
}

func testEventOrder(t *testing.T, s *suite) {
	w := s.watch(t, time.Time{})
	spec := s.shell(obedientCommand)
	spec.Config.Labels = map[string]string{"suite": s.Prefix}
	id := s.start(t, spec)
	s.exec(t, id, docker.ExecOptions{Command: []string{"sh", "-c", talkativeCommand}, Stdout: true})
	testutil.Must(t, s.Engine.UpdateContainer(withPatience(t), id, api.Resources{CPUShares: 100}))
	testutil.Must(t, s.Engine.StopContainer(withPatience(t), id, 10*time.Second))
	testutil.Must(t, s.Engine.RemoveContainer(withPatience(t), id))
	want := []docker.EventKind{
		docker.ContainerCreated, docker.ContainerStarted, docker.ExecDied, docker.ContainerUpdated,
		docker.ContainerDied, docker.ContainerRemoved,
	}
	testutil.Until(t, "the container is removed", func() bool {
		return slices.Contains(w.kinds(id), docker.ContainerRemoved)
	})
	got := w.kinds(id)
	testutil.Require(t, slices.Equal(got, want), "got events %v, want %v", got, want)
	last := time.Time{}
	for _, event := range w.of(id) {
		testutil.Assert(t, !event.Time.Before(last) && time.Since(event.Time).Abs() <= patience,
			"%s has the time %s after %s", event.Kind, event.Time, last)
		last = event.Time
		testutil.Assert(t, event.Labels["suite"] == s.Prefix && event.Labels["name"] == spec.Name,
			"%s has the labels %v", event.Kind, event.Labels)
	}
	exec := w.of(id)[2]
	testutil.Assert(t, exec.ExecID != "", "exec-died is %+v", exec)
}

func testEventReplay(t *testing.T, s *suite) {
	began := time.Now()
	id := s.start(t, s.shell(failingCommand))
	testutil.Until(t, "the container exits", func() bool { return s.inspect(t, id).State.Status == api.StateExited })
	w := s.watch(t, began)
	testutil.Until(t, "the past is replayed", func() bool { return slices.Contains(w.kinds(id), docker.ContainerDied) })

	later := s.watch(t, time.Now())
	other := s.create(t, s.shell(longCommand))
	testutil.Until(t, "the present is reported", func() bool { return len(later.of(other)) > 0 })
	got := later.kinds(id)
	testutil.Assert(t, len(got) == 0, "a stream from now on replays the past: %v", got)
}

func testEventsContext(t *testing.T, s *suite) {
	ctx, cancel := context.WithTimeout(withPatience(t), 200*time.Millisecond)
	defer cancel()
	err := s.Engine.Events(ctx, docker.EventsOptions{Handle: func(docker.Event) {}})
	wantError(t, "Events", err, context.DeadlineExceeded)
}

// testDiedIsExited checks that inspect shows the exit as soon as the die event has arrived.
func testDiedIsExited(t *testing.T, s *suite) {
	w := s.watch(t, time.Time{})
	for range 3 {
		id := s.start(t, s.shell(failingCommand))
		testutil.Until(t, "the container dies", func() bool {
			return slices.Contains(w.kinds(id), docker.ContainerDied)
		})
		if state := s.inspect(t, id).State; state.Status != api.StateExited || state.ExitCode != 3 {
			t.Errorf("after its die event the container is %+v", state)
		}
	}
}
