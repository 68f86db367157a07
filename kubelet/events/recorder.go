// Package events records events of pods and of the node, as API events (the event recorder of client-go's tools/record,
// and the reasons of pkg/kubelet/events). It keeps the newest events in memory, logs every event, and passes it to a
// sink.
package events

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

const (
	// keep is how many events are kept.
	keep = 1000
	// samePeriod is the time after an event in which an equal event only raises the earlier one's count.
	samePeriod = 10 * time.Minute
)

// Recorder records events. It is safe for concurrent use.
type Recorder struct {
	node string

	mu     sync.Mutex
	events []v1.Event // oldest first
	serial int
	sink   func(v1.Event)
}

// New makes a recorder for the node of that name.
func New(node string) *Recorder { return &Recorder{node: node} }

// SetSink makes Record pass each event to sink, with a count of 1 even if the event is repeated. The sink must not
// block. Nil removes it.
func (r *Recorder) SetSink(sink func(v1.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sink = sink
}

// Event is an event to record.
type Event struct {
	// Pod is nil for an event of the node.
	Pod *v1.Pod
	// Container is empty for an event of the whole pod.
	Container string
	// Warning makes it an event of the type Warning.
	Warning bool
	// Reason is one word, Message a sentence.
	Reason, Message string
}

// RecordNode records an event of the node.
func (r *Recorder) RecordNode(warning bool, reason, message string) {
	r.Record(Event{Warning: warning, Reason: reason, Message: message})
}

// Warn records a warning about a whole pod, or about the node if pod is nil.
func (r *Recorder) Warn(pod *v1.Pod, reason, message string) {
	r.Record(Event{Pod: pod, Warning: true, Reason: reason, Message: message})
}

// WarnFailure records a failure of a pod's container, or of the whole pod if container is empty. It records nothing if
// ctx has ended: the call then failed only because the pod or the kubelet ends.
func (r *Recorder) WarnFailure(ctx context.Context, pod *v1.Pod, container, reason, message string) {
	if ctx.Err() == nil {
		r.Record(Event{Pod: pod, Container: container, Warning: true, Reason: reason, Message: message})
	}
}

// SourceProblem returns a function that records why a source of pods cannot be read. With a nil error, the function
// records that the source can be read again.
func (r *Recorder) SourceProblem(source string) func(where string, err error) {
	return func(where string, err error) {
		if err == nil {
			r.RecordNode(false, source+"Recovered", where+" can be read again")
			return
		}
		r.RecordNode(true, source+"Problem", fmt.Sprintf("%s: %v", where, err))
	}
}

// Record keeps e and logs it.
func (r *Recorder) Record(e Event) {
	object := r.object(e)
	kind, level := v1.EventTypeNormal, log.InfoLevel
	if e.Warning {
		kind, level = v1.EventTypeWarning, log.WarnLevel
	}
	now := metav1.Now()
	r.mu.Lock()
	r.serial++
	event := v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s.%x.%x", object.Name, now.UnixNano(), r.serial), Namespace: object.Namespace,
			CreationTimestamp: now,
		},
		InvolvedObject: object, Reason: e.Reason, Message: e.Message, Type: kind, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: v1.EventSource{Component: "kubelet", Host: r.node}, ReportingController: "kubelet",
		ReportingInstance: r.node,
	}
	repeated := r.repeat(object, e, now)
	if !repeated {
		r.events = append(r.events, event)
		if len(r.events) > keep {
			r.events = slices.Delete(r.events, 0, len(r.events)-keep)
		}
	}
	sink := r.sink
	r.mu.Unlock()
	if sink != nil {
		sink(event)
	}
	if repeated {
		level = log.DebugLevel
	}
	logger(object, e.Container).WithFields(log.Fields{"type": event.Type, "reason": e.Reason}).Log(level, e.Message)
}

// logger has the fields of an event's object. It uses log.L and not a context's logger, because an event need not
// belong to a request.
func logger(object v1.ObjectReference, container string) *log.Entry {
	if object.Kind == "Node" {
		return log.L.WithField("node", object.Name)
	}
	fields := log.Fields{"pod": object.Namespace + "/" + object.Name, "podUID": object.UID}
	if container != "" {
		fields["containerName"] = container
	}
	return log.L.WithFields(fields)
}

// repeat counts e in an earlier equal event, if there is one. The object may have another resource version, as in the
// kubelet. The caller holds mu.
func (r *Recorder) repeat(object v1.ObjectReference, e Event, now metav1.Time) bool {
	for i := len(r.events) - 1; i >= 0; i-- {
		old := &r.events[i]
		if now.Sub(old.LastTimestamp.Time) > samePeriod {
			return false
		}
		object.ResourceVersion = old.InvolvedObject.ResourceVersion
		if old.InvolvedObject == object && old.Reason == e.Reason && old.Message == e.Message {
			event := *old
			event.Count++
			event.LastTimestamp = now
			r.events = append(slices.Delete(r.events, i, i+1), event)
			return true
		}
	}
	return false
}

// object is the object of an event. A container is named by its path in the pod. A node's UID is its name, as in the
// kubelet's events: kubectl describe finds the events by this UID.
func (r *Recorder) object(e Event) v1.ObjectReference {
	if e.Pod == nil {
		return v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.node, UID: types.UID(r.node)}
	}
	ref := v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID,
		ResourceVersion: e.Pod.ResourceVersion,
	}
	if e.Container == "" {
		return ref
	}
	ref.FieldPath = fmt.Sprintf("spec.containers{%s}", e.Container)
	switch _, kind := model.FindContainer(&e.Pod.Spec, e.Container); kind {
	case model.Init, model.Sidecar:
		ref.FieldPath = fmt.Sprintf("spec.initContainers{%s}", e.Container)
	case model.Ephemeral:
		ref.FieldPath = fmt.Sprintf("spec.ephemeralContainers{%s}", e.Container)
	}
	return ref
}

// List returns the kept events, the newest last.
func (r *Recorder) List() []v1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
