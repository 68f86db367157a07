// Package events keeps what happened to pods, as API events: the last ones in memory, and all in the log. A sink gets
// each of them, too, to send it on.
package events

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

const (
	// keep is how many events are kept.
	keep = 1000
	// same bounds how long a repeated event is counted instead of kept anew.
	same = 10 * time.Minute
)

// Recorder takes events. It is safe for concurrent use.
type Recorder struct {
	node string

	mu     sync.Mutex
	events []v1.Event // oldest first
	serial int
	sink   func(v1.Event)
}

// New makes a recorder for the node of that name.
func New(node string) *Recorder { return &Recorder{node: node} }

// SetSink has sink called with each event from now on, once per occurrence and so with a count of 1: who sends events on
// counts what he sent. It is called by whoever records, and must not block. Nil ends it.
func (r *Recorder) SetSink(sink func(v1.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sink = sink
}

// Event is something that happened.
type Event struct {
	// Pod it happened to; nil for the node.
	Pod *v1.Pod
	// Container of the pod, empty for the whole pod.
	Container string
	// Warning marks what somebody should look at.
	Warning bool
	// Reason is one word, Message a sentence.
	Reason, Message string
}

// Record keeps e and logs it.
func (r *Recorder) Record(e Event) {
	object := r.object(e)
	kind, level := v1.EventTypeNormal, logrus.InfoLevel
	if e.Warning {
		kind, level = v1.EventTypeWarning, logrus.WarnLevel
	}
	now := metav1.Now()
	r.mu.Lock()
	r.serial++
	event := v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s.%x.%x", object.Name, now.UnixNano(), r.serial), Namespace: object.Namespace, CreationTimestamp: now,
		},
		InvolvedObject: object, Reason: e.Reason, Message: e.Message, Type: kind, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: v1.EventSource{Component: "kubelet", Host: r.node}, ReportingController: "kubelet", ReportingInstance: r.node,
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
		level = logrus.DebugLevel
	}
	logrus.WithFields(logrus.Fields{"object": object.Namespace + "/" + object.Name, "container": e.Container, "reason": e.Reason}).Log(level, e.Message)
}

// repeat counts e in an earlier event that says the same, if there is one. The caller holds mu.
func (r *Recorder) repeat(object v1.ObjectReference, e Event, now metav1.Time) bool {
	for i := len(r.events) - 1; i >= 0; i-- {
		old := &r.events[i]
		if now.Sub(old.LastTimestamp.Time) > same {
			return false
		}
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

// object is what an event is about; a container is told by its place in the pod. A node's UID is its name, as in all
// kubelets' events: kubectl describe looks for that.
func (r *Recorder) object(e Event) v1.ObjectReference {
	if e.Pod == nil {
		return v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.node, UID: types.UID(r.node)}
	}
	ref := v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID, ResourceVersion: e.Pod.ResourceVersion,
	}
	if e.Container == "" {
		return ref
	}
	ref.FieldPath = fmt.Sprintf("spec.containers{%s}", e.Container)
	if _, kind := model.FindContainer(&e.Pod.Spec, e.Container); kind != model.App {
		ref.FieldPath = fmt.Sprintf("spec.initContainers{%s}", e.Container)
	}
	return ref
}

// List returns the events that are kept, the newest last.
func (r *Recorder) List() []v1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
