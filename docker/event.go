package docker

import "time"

// EventKind names the events of all engines alike.
type EventKind string

// The events that criadapter acts on. Their order differs between engines: a
// stop is kill, die, stop on 20.10 and kill, stop, die on 29.
const (
	ContainerCreated EventKind = "container-created"
	ContainerStarted EventKind = "container-started"
	ContainerDied    EventKind = "container-died"
	ContainerOOM     EventKind = "container-oom"
	ContainerPaused  EventKind = "container-paused"
	ContainerResumed EventKind = "container-resumed"
	ContainerUpdated EventKind = "container-updated"
	ContainerRenamed EventKind = "container-renamed"
	ContainerRemoved EventKind = "container-removed"
	ExecDied         EventKind = "exec-died"
	ImageChanged     EventKind = "image-changed"
)

// Event is an event of the engine.
type Event struct {
	Kind EventKind
	// ID is the container's full id, or the image's reference or id.
	ID string
	// ExecID is set for ExecDied. A label of the container may hide it.
	ExecID string
	// Labels are the container's labels (and other attributes) as the engine
	// reports them with the event. The engine lets a label replace an attribute
	// of the same name, except for "name" and "image": an image with the label
	// exitCode says how each command in it ends. Ask the engine for exit codes.
	// The event of a removal has the labels alone, so an exitCode there is such
	// a label.
	Labels map[string]string
	Time   time.Time
}
