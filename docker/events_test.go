package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/events"

	"github.com/criadapter/criadapter/internal/testutil"
)

// streamEvents lets the server answer a subscription with the lines and then
// keep the stream open until end is closed.
func (f *fakeServer) streamEvents(end <-chan struct{}, lines ...string) {
	f.handle("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for _, line := range lines {
			_, _ = w.Write([]byte(line + "\n"))
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
}

func diedLine(id string, code int) string {
	return fmt.Sprintf(`{"Type":"container","Action":"die","Actor":{"ID":%q,"Attributes":{"exitCode":"%d"}},"timeNano":1500}`, id, code)
}

// closed returns a closed channel: a stream with it ends at once.
func closed() <-chan struct{} {
	end := make(chan struct{})
	close(end)
	return end
}

func TestEvents(t *testing.T) {
	f := newFakeServer(t)
	f.streamEvents(closed(),
		diedLine("a", 3),
		`{"Type":"network","Action":"destroy","Actor":{"ID":"n"}}`,
		`{"Type":"container","Action":"exec_start: sh","Actor":{"ID":"a"}}`,
		`{"Type":"container","Action":"exec_die","Actor":{"ID":"a","Attributes":{"execID":"e","exitCode":"137"}},"time":2}`,
		`{"status":"die","id":"old form"}`,
		`{"Type":"image","Action":"tag","Actor":{"ID":"sha256:x"},"timeNano":3}`,
	)
	c := f.dial(0)
	subscribed := 0
	var got []Event
	err := c.Events(testContext(t), EventsOptions{
		Subscribed: func() {
			if subscribed++; len(got) > 0 {
				t.Error("an event came before the subscription was accepted")
			}
		},
		Handle: func(e Event) { got = append(got, e) },
	})
	wantType(t, "a stream that the engine ends", err, errdefs.ErrUnavailable)
	testutil.Assert(t, subscribed == 1, "Subscribed was called %d times", subscribed)
	testutil.Require(t, len(got) == 3, "got %d events: %+v", len(got), got)
	e := got[0]
	testutil.Assert(t, e.Kind == ContainerDied && e.ID == "a" && e.Time.Equal(time.Unix(0, 1500)), "die: %+v", e)
	if e := got[1]; e.Kind != ExecDied || e.ExecID != "e" || !e.Time.Equal(time.Unix(2, 0)) {
		t.Errorf("exec_die: %+v", e)
	}
	if e := got[2]; e.Kind != ImageChanged || e.ID != "sha256:x" {
		t.Errorf("tag: %+v", e)
	}
	testutil.Assert(t, c.current.Load() == nil, "the connection is kept although the engine ended the stream")
}

// After a reload, the client's session is newer than the stream's. The stream's end still means that the engine is
// gone.
func TestEventsEndAfterAReload(t *testing.T) {
	f := newFakeServer(t)
	f.streamEvents(closed(), `{"Type": "daemon", "Action": "reload", "Actor": {"ID": "x"}}`, diedLine("a", 0))
	c := f.dial(0)
	handled := 0
	err := c.Events(testContext(t), EventsOptions{Handle: func(Event) {
		handled++
		if _, err := c.Features(testContext(t)); err != nil { // connects anew
			t.Error(err)
		}
	}})
	wantType(t, "a stream that the engine ends", err, errdefs.ErrUnavailable)
	if handled != 1 || c.current.Load() != nil {
		t.Errorf("%d events, and the session is kept: %t", handled, c.current.Load() != nil)
	}
}

// TestEventsRequest checks the query of a subscription.
func TestEventsRequest(t *testing.T) {
	f := newFakeServer(t)
	asked := make(chan *http.Request, 2)
	f.handle("GET /events", func(_ http.ResponseWriter, r *http.Request) { asked <- r })
	c := f.dial(0)
	before := time.Now()
	_ = c.Events(testContext(t), EventsOptions{Handle: func(Event) {}})
	query := (<-asked).URL.Query()
	// The engine sends the HTTP status before it subscribes. Without since, events in between would be lost.
	seconds, err := strconv.ParseFloat(query.Get("since"), 64)
	since := time.Unix(0, int64(seconds*1e9))
	testutil.Assert(t, err == nil && !since.Before(before.Add(-time.Second)) &&
		!since.After(time.Now().Add(time.Second)), "since is %q", query.Get("since"))
	var filters map[string]map[string]bool
	testutil.Must(t, json.Unmarshal([]byte(query.Get("filters")), &filters))
	for term, value := range map[string]string{"type": "container", "event": "exec_die"} {
		testutil.Assert(t, filters[term][value], "the filter %s lacks %s: %v", term, value, filters)
	}
	testutil.Assert(t, !filters["type"]["network"] && !filters["event"]["exec_start"] && !filters["event"]["kill"],
		"the filters ask for too much: %v", filters)
	_ = c.Events(testContext(t), EventsOptions{Since: time.Unix(12, 34), Handle: func(Event) {}})
	testutil.Equal(t, (<-asked).URL.Query().Get("since"), "12.000000034", "since")
}

// TestEventsRefused checks that only status 200 accepts a subscription.
func TestEventsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(*fakeServer) http.HandlerFunc
		want    error
		within  time.Duration // the request timeout, which includes the connection; 0: the default
	}{
		"400": {handler: func(*fakeServer) http.HandlerFunc {
			return answer(400, `{"message":"bad filter"}`)
		}, want: errdefs.ErrInvalidArgument},
		"500": {handler: func(*fakeServer) http.HandlerFunc {
			return answer(500, `{"message":"no"}`)
		}, want: errdefs.ErrInternal},
		"hung up": {handler: func(*fakeServer) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}, want: errdefs.ErrUnavailable},
		"no answer": {func(f *fakeServer) http.HandlerFunc { return f.hang() }, errdefs.ErrUnavailable,
			300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.handle("GET /events", c.handler(f))
			err := f.dial(c.within).Events(testContext(t), EventsOptions{
				Subscribed: func() { t.Error("Subscribed was called") },
				Handle:     func(Event) { t.Error("Handle was called") },
			})
			wantType(t, "Events", err, c.want)
		})
	}
}

// TestEventsGarbage checks that the first line that cannot be decoded ends the stream.
func TestEventsGarbage(t *testing.T) {
	for name, lines := range map[string][]string{
		"no JSON":     {"<html>"},
		"wrong types": {`{"Type":5}`},
		"cut short":   {`{"Type":"container","Action":"di`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.streamEvents(closed(), append([]string{diedLine("a", 0)}, lines...)...)
			handled := 0
			err := f.dial(0).Events(testContext(t), EventsOptions{Handle: func(Event) { handled++ }})
			testutil.Assert(t, err != nil && handled == 1, "handled %d events, then %v", handled, err)
		})
	}
}

// TestEventsOutlastRequestTimeout checks that the request timeout bounds the subscription, but not the stream.
func TestEventsOutlastRequestTimeout(t *testing.T) {
	f := newFakeServer(t)
	f.streamEvents(nil)
	// The connection is made within the request timeout, also on a busy machine.
	const timeout = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	err := f.dial(timeout).Events(ctx, EventsOptions{Handle: func(Event) {}})
	wantType(t, "Events", err, context.DeadlineExceeded)
}

// TestSlowHandler checks that the client reads events while the handler is busy. If it did not, the engine would drop
// events.
func TestSlowHandler(t *testing.T) {
	const count = 20_000
	f := newFakeServer(t)
	var written atomic.Int64
	f.handle("GET /events", func(w http.ResponseWriter, _ *http.Request) {
		for n := range count {
			_, _ = w.Write([]byte(diedLine(strconv.Itoa(n), 0) + "\n"))
			written.Add(1)
		}
	})
	next := 0
	err := f.dial(0).Events(testContext(t), EventsOptions{Handle: func(e Event) {
		for end := time.Now().Add(10 * time.Second); next == 0 && written.Load() < count && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if next == 0 && written.Load() < count {
			t.Errorf("%d of %d events were written while the handler was busy", written.Load(), count)
		}
		testutil.Require(t, e.ID == strconv.Itoa(next), "event %s came when %d was due", e.ID, next)
		next++
	}})
	wantType(t, "Events", err, errdefs.ErrUnavailable)
	testutil.Assert(t, next == count, "%d of %d events were handled", next, count)
}

// TestEventQueueIsBounded shows that Events fails if its handler never catches up.
func TestEventQueueIsBounded(t *testing.T) {
	q := newEventQueue()
	for range maxQueuedEvents + 10 {
		q.put(Event{})
	}
	q.end(context.Canceled)
	batch, err := q.take(testContext(t))
	testutil.Assert(t, len(batch) == maxQueuedEvents, "%d events were kept", len(batch))
	wantType(t, "take", err, errdefs.ErrUnavailable)
}

func FuzzNormalise(f *testing.F) {
	f.Add([]byte(diedLine("a", 3)))
	f.Add([]byte(`{"Type":"container","Action":"exec_die","Actor":{"ID":"a","Attributes":{"execID":"e","exitCode":"x"}}}`))
	f.Add([]byte(`{"Type":"image","Action":"delete","Actor":{"ID":"sha256:x"},"timeNano":-1}`))
	f.Add([]byte(`{"Type":"container","Action":"create"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var message events.Message
		if json.Unmarshal(line, &message) != nil {
			return
		}
		event, ok := normalise(message)
		if !ok {
			testutil.Assert(t, event.Kind == "" && event.ID == "", "an ignored message became %+v", event)
			return
		}
		testutil.Assert(t, event.Kind != "" && event.ID != "", "no kind or id: %+v", event)
		if strings.HasPrefix(string(event.Kind),
			"container") != (message.Type == "container" && message.Action != "exec_die") {
			t.Errorf("%s %s became %s", message.Type, message.Action, event.Kind)
		}
	})
}
