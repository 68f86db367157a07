package report

import (
	"cmp"
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
	// queue is the number of events that may wait. Zero means 1000, as in the kubelet.
	queue int
	// tries is the number of attempts for an event. Zero means 12. The pause between two attempts doubles from
	// firstPause to lastPause, with a jitter of up to 40 %.
	tries int
	// flush is the time to send waiting events when Run ends. Zero means two seconds.
	flush time.Duration
}

// EventCounts counts events by their outcome.
type EventCounts struct {
	// Sent events are on the API server, as new events or as a higher count of an existing one.
	Sent int64
	// Suppressed events exceeded the rate for one object: 25 at once, then one in five minutes, as in the kubelet.
	Suppressed int64
	// Dropped events found the queue full, failed in all attempts, or were not sent when Run ended. Refused events were
	// rejected by the API server.
	Dropped, Refused int64
}

// EventSink sends events to the API server. A repeated event raises the count of the existing one, and many similar
// events are combined, as in all Kubernetes components. It is safe for concurrent use.
type EventSink struct {
	opts       EventOptions
	queue      chan v1.Event
	backoff    wait.Backoff
	correlator *record.EventCorrelator

	sent, suppressed, dropped, refused atomic.Int64
}

// NewEvents makes a sink. Nothing is sent before Run.
func NewEvents(opts EventOptions) *EventSink {
	opts.queue = cmp.Or(opts.queue, 1000)
	opts.tries = cmp.Or(opts.tries, 12)
	opts.flush = cmp.Or(opts.flush, 2*time.Second)
	return &EventSink{
		opts: opts, queue: make(chan v1.Event, opts.queue), correlator: record.NewEventCorrelator(clock.RealClock{}),
		backoff: wait.Backoff{
			Duration: firstPause, Factor: 2, Jitter: 0.4, Steps: opts.tries, Cap: lastPause * 10 / 14,
		},
	}
}

// Record queues an event that happened once (Count is 1). It never blocks: if the queue is full, the event is dropped
// and counted. It is the sink for events.Recorder.
func (s *EventSink) Record(event v1.Event) {
	// An event must have a namespace. Nodes have none.
	event.Namespace = cmp.Or(event.Namespace, metav1.NamespaceDefault)
	select {
	case s.queue <- event:
	default:
		s.dropped.Add(1)
	}
}

// Counts returns the outcomes so far.
func (s *EventSink) Counts() EventCounts {
	return EventCounts{Sent: s.sent.Load(), Suppressed: s.suppressed.Load(), Dropped: s.dropped.Load(),
		Refused: s.refused.Load()}
}

// Run sends events until ctx ends. Then it sends waiting events for at most EventOptions.flush, and returns nil. It is
// called once.
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

// flush makes one attempt for first, which may be nil, and for each waiting event. After a temporary failure it drops
// the event and the rest of the queue.
func (s *EventSink) flush(ctx context.Context, first *record.EventCorrelateResult) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.flush)
	defer cancel()
	for next := first; ; {
		if next != nil {
			if err := s.write(ctx, next); err != nil && temporary(err) {
				s.dropped.Add(1 + int64(len(s.queue)))
				return // the API server is away: the other events would fail, too
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

// correlate returns the request for an event, or nil if the event is suppressed.
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

// deliver sends until the API server accepts or refuses the event, or all attempts failed. It returns false if ctx
// ended before that.
func (s *EventSink) deliver(ctx context.Context, next *record.EventCorrelateResult) bool {
	backoff := s.backoff
	for try := 1; ; try++ {
		err := s.write(ctx, next)
		if err == nil || !temporary(err) {
			return true
		}
		if ctx.Err() != nil {
			return false
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

// write makes one attempt and counts its outcome.
func (s *EventSink) write(ctx context.Context, next *record.EventCorrelateResult) error {
	stored, err := s.put(ctx, next)
	switch {
	case err == nil:
		s.correlator.UpdateState(stored)
		s.sent.Add(1)
	case apierrors.IsAlreadyExists(err): // an earlier attempt succeeded, and its answer was lost
		s.sent.Add(1)
		return nil
	case !temporary(err):
		log.G(ctx).WithError(err).WithFields(eventFields(next.Event)).Warn("event refused by the API server")
		s.refused.Add(1)
	}
	return err
}

// put patches the existing event, or creates it if the API server has none.
func (s *EventSink) put(ctx context.Context, next *record.EventCorrelateResult) (*v1.Event, error) {
	events := s.opts.Events.Events(next.Event.Namespace)
	if next.Event.Count > 1 {
		stored, err := events.Patch(ctx, next.Event.Name, types.StrategicMergePatchType, next.Patch,
			metav1.PatchOptions{})
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

// temporary reports whether a retry may succeed: the API server did not answer, or asked for a retry.
func temporary(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}
