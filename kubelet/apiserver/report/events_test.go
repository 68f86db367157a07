package report

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/test/apitest"
)

// sinkBench has a recorder whose events a sink sends to a server, all in fake time.
type sinkBench struct {
	*testing.T
	server   *apitest.Server
	sink     *EventSink
	recorder *events.Recorder
	stop     func() // ends Run and waits for it
}

func inSinkBubble(t *testing.T, opts EventOptions, test func(b *sinkBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &sinkBench{T: t, server: apitest.New(), recorder: events.New("node")}
		opts.Events = b.server.Core()
		b.sink = NewEvents(opts)
		b.recorder.SetSink(b.sink.Record)
		b.stop = testutil.Background(t, b.sink.Run)
		test(b)
	})
}

func (b *sinkBench) record(name, reason, message string) {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = name, "ns", "u"
	b.recorder.Record(events.Event{Pod: pod, Reason: reason, Message: message})
}

// wantEvents compares the server's events as "reason xCount", in the order of names, which is the order of time for one
// pod.
func (b *sinkBench) wantEvents(want ...string) {
	b.Helper()
	var got []string
	for _, e := range b.server.Events() {
		got = append(got, fmt.Sprintf("%s x%d", e.Reason, e.Count))
	}
	testutil.Assert(b, fmt.Sprint(got) == fmt.Sprint(want), "events %q, want %q", got, want)
}

func (b *sinkBench) wantCounts(want EventCounts) {
	b.Helper()
	testutil.Equal(b, b.sink.Counts(), want, "counts")
}

func TestEventsAreCountedWhereTheyAre(t *testing.T) {
	inSinkBubble(t, EventOptions{}, func(b *sinkBench) {
		for range 3 {
			b.record("pod", "Pulled", "m")
			time.Sleep(time.Second)
		}
		b.record("pod", "Started", "m")
		b.recorder.Record(events.Event{Reason: "NodeReady", Message: "m"})
		synctest.Wait()
		list := b.server.Events()
		testutil.Require(t, len(list) == 3, "%d events", len(list))
		node, pulled := list[0], list[1]
		testutil.Assert(t, node.Namespace == "default" && node.InvolvedObject.UID == "node" &&
			node.InvolvedObject.Namespace == "", "of the node: %+v", node)
		testutil.Assert(t, pulled.Count == 3 &&
			pulled.LastTimestamp.Sub(pulled.FirstTimestamp.Time) == 2*time.Second &&
			pulled.InvolvedObject.UID == "u" && pulled.Source.Component == "kubelet", "repeated: %+v", pulled)
		b.wantCounts(EventCounts{Sent: 5})
	})
}

func TestEventForgottenByTheServerIsMadeAgain(t *testing.T) {
	inSinkBubble(t, EventOptions{}, func(b *sinkBench) {
		b.record("pod", "Pulled", "m")
		synctest.Wait()
		name := b.server.Events()[0].Name
		testutil.Must(t, b.server.Core().Events("ns").Delete(b.Context(), name, deleteNow()))
		b.record("pod", "Pulled", "m")
		synctest.Wait()
		b.wantEvents("Pulled x2")
	})
}

// TestSpamIsSuppressed: 25 events of an object are sent at once, and then one in five minutes. Other objects are not
// affected.
func TestSpamIsSuppressed(t *testing.T) {
	inSinkBubble(t, EventOptions{}, func(b *sinkBench) {
		for i := range 40 {
			b.record("loud", fmt.Sprint("Reason", i), "m")
		}
		b.record("quiet", "Started", "m")
		synctest.Wait()
		b.wantCounts(EventCounts{Sent: 26, Suppressed: 15})
		time.Sleep(5 * time.Minute)
		b.record("loud", "Later", "m")
		b.record("loud", "Later still", "m")
		synctest.Wait()
		b.wantCounts(EventCounts{Sent: 27, Suppressed: 16})
	})
}

func TestSimilarEventsAreCombined(t *testing.T) {
	inSinkBubble(t, EventOptions{}, func(b *sinkBench) {
		for i := range 14 {
			b.record("pod", "Failed", fmt.Sprint("message ", i))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		list := b.server.Events()
		last := list[len(list)-1]
		testutil.Assert(t, len(list) == 10 && last.Count == 5 && strings.HasSuffix(last.Message, "message 13") &&
			strings.HasPrefix(last.Message, "(combined"), "%d events, the last %d times %q", len(list), last.Count,
			last.Message)
	})
}

func TestEventsWaitForTheServer(t *testing.T) {
	inSinkBubble(t, EventOptions{queue: 5}, func(b *sinkBench) {
		b.server.SetAway(true)
		for i := range 8 {
			b.record(fmt.Sprint("pod", i), "Started", "m")
			synctest.Wait()
		}
		b.wantCounts(EventCounts{Dropped: 2}) // one is in flight, five wait
		time.Sleep(30 * time.Second)
		b.server.SetAway(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.wantCounts(EventCounts{Sent: 6, Dropped: 2})
	})
}

func TestEventIsGivenUp(t *testing.T) {
	inSinkBubble(t, EventOptions{tries: 3}, func(b *sinkBench) {
		b.server.SetAway(true)
		b.record("pod", "Started", "m")
		time.Sleep(time.Minute)
		b.server.SetAway(false)
		b.record("pod", "Pulled", "m")
		synctest.Wait()
		b.wantEvents("Pulled x1")
		b.wantCounts(EventCounts{Sent: 1, Dropped: 1})
	})
}

func TestAnswersToEvents(t *testing.T) {
	group := schema.GroupResource{Resource: "events"}
	for _, test := range []struct {
		name string
		err  error
		want EventCounts
	}{
		{"refused", apierrors.NewForbidden(group, "e", errors.New("the namespace is being terminated")),
			EventCounts{Refused: 1}},
		{"created by an earlier attempt", apierrors.NewAlreadyExists(group, "e"), EventCounts{Sent: 1}},
		{"internal error", apierrors.NewInternalError(errors.New("no leader")), EventCounts{Sent: 1}},
		{"overloaded", apierrors.NewServiceUnavailable("later"), EventCounts{Sent: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inSinkBubble(t, EventOptions{}, func(b *sinkBench) {
				failed := false
				b.server.SetFail(func(string) error {
					if failed {
						return nil
					}
					failed = true
					return test.err
				})
				b.record("pod", "Started", "m")
				time.Sleep(time.Minute)
				synctest.Wait()
				b.wantCounts(test.want)
			})
		})
	}
}

func TestEventsAreFlushedAtTheEnd(t *testing.T) {
	inSinkBubble(t, EventOptions{}, func(b *sinkBench) {
		b.server.SetAway(true)
		for i := range 3 {
			b.record("pod", fmt.Sprint("Reason", i), "m")
		}
		synctest.Wait()
		b.server.SetAway(false)
		b.stop()
		b.wantEvents("Reason0 x1", "Reason1 x1", "Reason2 x1")
		b.wantCounts(EventCounts{Sent: 3})
	})
}

// TestRefusalAtTheEnd: the API server refuses an event while Run ends. It is not sent again.
func TestRefusalAtTheEnd(t *testing.T) {
	server := apitest.New()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	server.SetFail(func(string) error {
		calls++
		cancel()
		return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "e", errors.New("no"))
	})
	sink := NewEvents(EventOptions{Events: server.Core()})
	recorder := events.New("node")
	recorder.SetSink(sink.Record)
	recorder.Record(events.Event{Reason: "Starting", Message: "m"})
	testutil.Must(t, sink.Run(ctx))
	testutil.Assert(t, calls == 1 && sink.Counts() == EventCounts{Refused: 1}, "%d calls, counts %+v", calls,
		sink.Counts())
}

func TestFlushGivesUpWithoutAServer(t *testing.T) {
	inSinkBubble(t, EventOptions{}, func(b *sinkBench) {
		b.server.SetAway(true)
		for i := range 3 {
			b.record("pod", fmt.Sprint("Reason", i), "m")
		}
		synctest.Wait()
		began := time.Now()
		b.stop()
		took := time.Since(began)
		testutil.Assert(t, took <= 2*time.Second, "the end took %v", took)
		b.wantCounts(EventCounts{Dropped: 3})
	})
}

// TestEventsOverHTTP: events are sent over a real connection.
func TestEventsOverHTTP(t *testing.T) {
	server := apitest.New()
	listener := httptest.NewServer(server)
	defer listener.Close()
	client, err := corev1.NewForConfig(apitest.Config(listener.URL))
	testutil.Must(t, err)
	sink := NewEvents(EventOptions{Events: client, flush: 20 * time.Second})
	recorder := events.New("node")
	recorder.SetSink(sink.Record)
	for range 2 {
		recorder.Record(events.Event{Reason: "Starting", Message: "m"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // waiting events are flushed
	testutil.Must(t, sink.Run(ctx))
	list := server.Events()
	testutil.Assert(t, len(list) == 1 && list[0].Count == 2, "events %+v", list)
}
