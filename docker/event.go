package docker

import "time"

// EventKind is the name of an event, the same for all engines.
type EventKind string

// The events that criadapter uses. Their order differs between engines: a stop is kill, die, stop on 20.10 and kill,
// stop, die on 29.
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
	// Labels are the container's labels (and other attributes) as the engine reports them with the event. The engine
	// lets a label replace an attribute of the same name, except for "name" and "image". So an image's label exitCode
	// replaces the exit codes in the events of its containers and of commands in them. Ask the engine for exit codes.
	// The event of a removal has only labels, so an exitCode there is such a label.
	Labels map[string]string
	Time   time.Time
}
