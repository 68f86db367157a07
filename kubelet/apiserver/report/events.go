package report

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// EventOptions configure an EventSink. Events is required.
type EventOptions struct {
	// Events is the API server.
	Events corev1.EventsGetter
	// queue is how many events may wait. Zero means 1000, as the kubelet.
	queue int
	// tries is how often an event is sent before it is given up; zero means twelve. The pauses in between double from
	// firstPause, with up to two fifths more by chance, and none is longer than lastPause. Zero means half a second and
	// ten seconds.
	tries                 int
	firstPause, lastPause time.Duration
	// flush bounds the sending of what waits when Run ends. Zero means two seconds.
	flush time.Duration
}

// EventCounts says what became of all events.
type EventCounts struct {
	// Sent were taken by the server, as new ones or as a count in one that it has.
	Sent int64
	// Suppressed were too many about one object: after 25 one in five minutes is sent, as the kubelet does.
	Suppressed int64
	// Dropped found the queue full, or the server away for all tries. Refused is what the server did not want.
	Dropped, Refused int64
}

// EventSink sends events to the API server. Repeated ones are counted in the event that the server has, and many
// similar ones are combined, as all Kubernetes components do. It is safe for concurrent use.
type EventSink struct {
	opts       EventOptions
	queue      chan v1.Event
	backoff    wait.Backoff
	correlator *record.EventCorrelator

	sent, suppressed, dropped, refused atomic.Int64
}

// NewEvents makes a sink; Run has it send.
func NewEvents(opts EventOptions) *EventSink {
	if opts.queue == 0 {
		opts.queue = 1000
	}
	if opts.tries == 0 {
		opts.tries = 12
	}
	if opts.firstPause == 0 {
		opts.firstPause = 500 * time.Millisecond
	}
	if opts.lastPause == 0 {
		opts.lastPause = max(10*time.Second, opts.firstPause)
	}
	if opts.flush == 0 {
		opts.flush = 2 * time.Second
	}
	return &EventSink{
		opts: opts, queue: make(chan v1.Event, opts.queue), correlator: record.NewEventCorrelator(clock.RealClock{}),
		backoff: wait.Backoff{Duration: opts.firstPause, Factor: 2, Jitter: 0.4, Steps: opts.tries, Cap: opts.lastPause * 10 / 14},
	}
}

// Record takes an event that happened once (Count is 1). It never blocks: what the queue cannot hold is dropped and
// counted. It is the sink for events.Recorder.
func (s *EventSink) Record(event v1.Event) {
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault // events of nodes are there, because an event must be in a namespace
	}
	select {
	case s.queue <- event:
	default:
		s.dropped.Add(1)
	}
}

// Counts says what became of the events so far.
func (s *EventSink) Counts() EventCounts {
	return EventCounts{Sent: s.sent.Load(), Suppressed: s.suppressed.Load(), Dropped: s.dropped.Load(), Refused: s.refused.Load()}
}

// Run sends until ctx ends, then for a short time what waits yet, and returns nil. It is called once.
func (s *EventSink) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			s.flush(ctx, nil)
			return nil
		case event := <-s.queue:
			next := s.correlate(ctx, event)
			if next != nil && !s.deliver(ctx, next) {
				s.flush(ctx, next)
				return nil
			}
		}
	}
}

// flush tries once more what was being sent, and everything that waits.
func (s *EventSink) flush(ctx context.Context, first *record.EventCorrelateResult) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.flush)
	defer cancel()
	for next := first; ; {
		if next != nil {
			if err := s.write(ctx, next); err != nil && temporary(err) {
				s.dropped.Add(1 + int64(len(s.queue)))
				return // the server is not there: it will not take the others either
			}
		}
		select {
		case event := <-s.queue:
			next = s.correlate(ctx, event)
		default:
			return
		}
	}
}

// correlate says what is to be sent for an event, and nil for nothing.
func (s *EventSink) correlate(ctx context.Context, event v1.Event) *record.EventCorrelateResult {
	result, err := s.correlator.EventCorrelate(&event)
	if err != nil {
		log.G(ctx).WithError(err).WithField("event", event.Name).Warn("event cannot be correlated")
		s.refused.Add(1)
		return nil
	}
	if result.Skip {
		s.suppressed.Add(1)
		return nil
	}
	return result
}

// deliver sends until the server takes it, refuses it, or was away for all tries. It is false when ctx ended before.
func (s *EventSink) deliver(ctx context.Context, next *record.EventCorrelateResult) bool {
	backoff := s.backoff
	for try := 1; ; try++ {
		err := s.write(ctx, next)
		if ctx.Err() != nil && err != nil {
			return false
		}
		if err == nil || !temporary(err) {
			return true
		}
		if try >= s.opts.tries {
			log.G(ctx).WithError(err).WithFields(eventFields(next.Event)).Warn("event given up")
			s.dropped.Add(1)
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(backoff.Step()):
		}
	}
}

// write sends once and counts what the server says to it.
func (s *EventSink) write(ctx context.Context, next *record.EventCorrelateResult) error {
	stored, err := s.put(ctx, next)
	switch {
	case err == nil:
		s.correlator.UpdateState(stored)
		s.sent.Add(1)
	case apierrors.IsAlreadyExists(err): // it was taken the time before, and the answer was lost
		s.sent.Add(1)
		return nil
	case !temporary(err):
		log.G(ctx).WithError(err).WithFields(eventFields(next.Event)).Warn("event refused by the API server")
		s.refused.Add(1)
	}
	return err
}

// put patches the event that the server has, or creates it if it never had it or forgot it.
func (s *EventSink) put(ctx context.Context, next *record.EventCorrelateResult) (*v1.Event, error) {
	events := s.opts.Events.Events(next.Event.Namespace)
	if next.Event.Count > 1 {
		stored, err := events.Patch(ctx, next.Event.Name, types.StrategicMergePatchType, next.Patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return stored, wrapped("patch", next.Event, err)
		}
	}
	event := next.Event.DeepCopy()
	event.ResourceVersion, event.UID = "", ""
	stored, err := events.Create(ctx, event, metav1.CreateOptions{})
	return stored, wrapped("create", next.Event, err)
}

// eventFields name an event and its object in the log.
func eventFields(event *v1.Event) log.Fields {
	about := event.InvolvedObject
	return log.Fields{"event": event.Name, "kind": about.Kind, "object": about.Namespace + "/" + about.Name}
}

func wrapped(what string, event *v1.Event, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s event %s/%s: %w", what, event.Namespace, event.Name, err)
}

// temporary says whether the same request may succeed later: the server did not answer, or said so.
func temporary(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}
