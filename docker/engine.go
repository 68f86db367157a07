package docker

import (
	"context"
	"io"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"
)

// Engine is what criadapter asks of Docker Engine. All methods are safe for
// concurrent use, end when their context ends, and return errors typed with
// github.com/containerd/errdefs; whatever the call, ErrUnavailable means that
// the engine could not be reached or did not answer, and ErrFailedPrecondition
// that it is not one that can run pods here, with a sentence that says why.
type Engine interface {
	System
	Containers
	Execs
	Attachments
	Images
}

// System is the part of Engine that speaks of the engine itself.
type System interface {
	// Features returns what the engine of the current connection can do. The
	// value is read once per connection and answered from memory; while the
	// engine is away the call fails with ErrUnavailable and the reason.
	Features(ctx context.Context) (Features, error)
	// Ping asks the engine whether it answers.
	Ping(ctx context.Context) error
	// Events streams container, exec and image events that happened at or
	// after opts.Since (zero: from now on) into opts.Handle, one at a time and
	// in the engine's order, until ctx ends, the connection breaks, or Handle is
	// tens of thousands of events behind. It always returns a non-nil error:
	// what happened since the last event must then be looked up.
	Events(ctx context.Context, opts EventsOptions) error
}

// EventsOptions are the options of Engine.Events.
type EventsOptions struct {
	// Since asks the engine to replay events from that time on. Engines keep
	// only their last 256 events and forget them on a restart.
	Since time.Time
	// Subscribed, when not nil, is called once the engine has accepted the
	// subscription, before the first event: what happens after it is not
	// missed.
	Subscribed func()
	// Handle is called for each event, in the goroutine that called Events.
	Handle func(Event)
}

// Containers is the part of Engine that speaks of containers. An id may be a
// container's full id or its name.
type Containers interface {
	// CreateContainer creates a container and returns its full id. A name in
	// use fails with ErrConflict, a missing image with ErrNotFound.
	CreateContainer(ctx context.Context, spec ContainerSpec) (string, error)
	// StartContainer starts a created or exited container. Starting a running
	// one succeeds.
	StartContainer(ctx context.Context, id string) error
	// StopContainer sends the container's stop signal, waits up to grace,
	// then kills. It returns when the container has stopped. Stopping one
	// that does not run succeeds.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// KillContainer sends a signal such as "SIGKILL". A container that does
	// not run fails with ErrConflict.
	KillContainer(ctx context.Context, id, signal string) error
	// RemoveContainer kills the container if it runs and removes it with its
	// anonymous volumes.
	RemoveContainer(ctx context.Context, id string) error
	// UpdateContainer changes the resources of a container.
	UpdateContainer(ctx context.Context, id string, resources container.Resources) error
	// InspectContainer returns what the engine knows of one container. It is
	// right at any time, whereas a list may lag behind a die event.
	InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error)
	// ListContainers lists all containers, in any state, that carry the label
	// key given (with value when not empty).
	ListContainers(ctx context.Context, labels map[string]string) ([]container.Summary, error)
}

// ContainerSpec is a container to create. Its three parts are sent as they
// are; fields that the connected engine is too old for are refused with
// ErrNotImplemented before anything is sent, because old engines ignore
// unknown fields silently.
type ContainerSpec struct {
	Name    string
	Config  *container.Config
	Host    *container.HostConfig
	Network *network.NetworkingConfig
}

// Execs is the part of Engine that runs processes in running containers.
type Execs interface {
	// CreateExec prepares a process and returns its exec id.
	CreateExec(ctx context.Context, containerID string, opts ExecOptions) (string, error)
	// AttachExec starts a prepared process and returns its streams.
	AttachExec(ctx context.Context, execID string, opts ExecOptions) (Stream, error)
	// InspectExec returns the state of a process.
	InspectExec(ctx context.Context, execID string) (ExecState, error)
}

// ExecOptions says how to run a process in a container.
type ExecOptions struct {
	Command []string
	Stdin   bool
	TTY     bool
	Stdout  bool
	Stderr  bool
}

// ExecState is the state of a process in a container.
type ExecState struct {
	Running  bool
	ExitCode int
	// PID is the process in the host's PID namespace, 0 before it started.
	PID int
}

// Attachments is the part of Engine that joins the terminals and streams of
// running processes.
type Attachments interface {
	// AttachContainer joins the streams of a running container, from now on. The
	// stream ends when the container does, or when it is closed. CloseWrite ends
	// the container's standard input if it was created with StdinOnce, and the
	// attachment otherwise.
	AttachContainer(ctx context.Context, id string, opts AttachOptions) (Stream, error)
	// ResizeContainer sets the size of a running container's terminal.
	ResizeContainer(ctx context.Context, id string, size TerminalSize) error
	// ResizeExec sets the size of the terminal of a process that was started.
	ResizeExec(ctx context.Context, execID string, size TerminalSize) error
}

// AttachOptions say which streams of a container to join.
type AttachOptions struct {
	Stdin  bool
	Stdout bool
	Stderr bool
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Width, Height uint16
}

// Stream is a bidirectional connection to a process. Without a TTY what Read
// returns is multiplexed (see Demultiplex). Close ends both directions.
type Stream interface {
	io.ReadWriteCloser
	// CloseWrite ends the standard input and leaves the output open.
	CloseWrite() error
}

// Images is the part of Engine that speaks of images.
type Images interface {
	// ListImages lists the top-level images (no intermediate layers).
	ListImages(ctx context.Context) ([]image.Summary, error)
	// InspectImage looks an image up by id, tag or digest.
	InspectImage(ctx context.Context, ref string) (*image.InspectResponse, error)
	// PullImage pulls ref ("name:tag" or "name@digest") and returns when the
	// image is complete. An image that the registry does not have fails with
	// ErrNotFound, refused credentials with ErrUnauthenticated, a registry that
	// cannot be reached with ErrRegistryUnavailable.
	PullImage(ctx context.Context, ref string, opts PullOptions) error
	// LoadImage loads an archive in the format of docker save.
	LoadImage(ctx context.Context, archive io.Reader) error
	// SaveImage writes an image to archive, in the format of docker save: its
	// layers as they were pulled, and manifest.json with their order. What was
	// written before an error is worth nothing. An error of archive is wrapped.
	SaveImage(ctx context.Context, ref string, archive io.Writer) error
	// TagImage gives an image one more name.
	TagImage(ctx context.Context, source, target string) error
	// RemoveImage removes one name of an image, or the image when ref is an
	// id without other names. A used image fails with ErrConflict.
	RemoveImage(ctx context.Context, ref string) error
}

// PullOptions are the options of Engine.PullImage.
type PullOptions struct {
	// Auth are the credentials for the registry, nil for none. They are never
	// logged.
	Auth *Auth
	// Progress, when not nil, is called whenever a layer gets on: with the next
	// bytes of its download (every 512 KiB or so), while it is extracted, and
	// from one step to the next. A transfer that stands still is silent.
	Progress func()
}

// Auth are credentials for a registry.
type Auth struct {
	Username      string
	Password      string
	IdentityToken string
	RegistryToken string
	ServerAddress string
}
