package docker

import (
	"context"
	"io"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// Engine is what criadapter asks of Docker Engine. All methods are safe for
// concurrent use, end when their context ends, and return errors typed with
// github.com/containerd/errdefs; whatever the call, ErrUnavailable means that
// the engine could not be reached or did not answer, and ErrFailedPrecondition
// that it is not one that can run pods here, with a sentence that says why.
type Engine interface {
	System
	Containers
	Checkpoints
	Execs
	Attachments
	Images
}

// System is the part of Engine for the engine itself.
type System interface {
	// Features returns what the engine of the current connection can do. The
	// value is read once per connection and answered from memory; while the
	// engine is away the call fails with ErrUnavailable and the reason.
	Features(ctx context.Context) (Features, error)
	// Ping asks the engine whether it answers.
	Ping(ctx context.Context) error
	// LastAnswer returns when the engine last answered any request, if only with
	// an error; zero before the first time. Events are no answers.
	LastAnswer() time.Time
	// LastTimeout returns when a request that Options.RequestTimeout bounds had
	// last waited nine seconds for its answer (half of RequestTimeout where that
	// is less; a stop in addition to its grace period), zero before the first
	// time. Whether the answer came later, and whose deadline was nearer, does
	// not count.
	LastTimeout() time.Time
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

// Containers is the part of Engine for containers. An id may be a
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
	// LimitNote replaces the limits in the container's note, which count from its next start on, and returns those that
	// it had. It does nothing for a container without a note.
	LimitNote(ctx context.Context, id string, limits NoteLimits) (NoteLimits, error)
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
	// Note is what the API cannot say, for Features.OCIRuntime, which the container gets
	// in the place of the engine's default. Nil where there is nothing to say.
	Note *ocinote.Note `json:",omitempty"`
}

// NoteLimits are the limits of a container that its note has, see ocinote.Note.
type NoteLimits struct {
	HugepageLimits map[string]uint64
	Unified        map[string]string
}

// Checkpoints is the part of Engine that keeps what containers are, and begins others from it. Those calls that need
// CRIU fail on an engine without it, see Features.NoCheckpoint.
type Checkpoints interface {
	// PauseContainer stops all processes of a running container where they are. One that is paused fails with
	// ErrConflict.
	PauseContainer(ctx context.Context, id string) error
	// UnpauseContainer lets them go on. A container that is not paused fails with an error of some type.
	UnpauseContainer(ctx context.Context, id string) error
	// CreateCheckpoint writes the processes of a container into the directory dir/name, which it makes, with CRIU. They
	// go on afterwards; engines before 23 do not do it for a paused container. It takes as long as ctx.
	CreateCheckpoint(ctx context.Context, id, dir, name string) error
	// RestoreContainer starts a created container with the processes of the checkpoint that is in the directory
	// checkpoints/name of its own one. It takes as long as ctx.
	RestoreContainer(ctx context.Context, id, name string) error
	// ListChanges lists what a container has changed of its image's files.
	ListChanges(ctx context.Context, id string) ([]container.FilesystemChange, error)
	// CopyToContainer extracts a tar archive over the root of a container.
	CopyToContainer(ctx context.Context, id string, archive io.Reader) error
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
// processes.
type Attachments interface {
	// AttachContainer joins the streams of a running container, from now on. The
	// stream ends when the container does, or when it is closed. CloseWrite ends
	// the container's standard input if it was created with StdinOnce, and the
	// attachment otherwise. A container that has ended is joined as well, and
	// its stream says nothing until the next start: look at it afterwards. One
	// that ends just then may leave a stream with input open.
	AttachContainer(ctx context.Context, id string, opts AttachOptions) (Stream, error)
	// ContainerLogs returns what a container has written so far to the streams
	// that opts name, as its log holds it, in the form of Stream.Read. The caller
	// closes it.
	ContainerLogs(ctx context.Context, id string, opts AttachOptions) (io.ReadCloser, error)
	// ResizeContainer sets the size of a running container's terminal.
	ResizeContainer(ctx context.Context, id string, size TerminalSize) error
	// ResizeExec sets the size of the terminal of a process that was started.
	ResizeExec(ctx context.Context, execID string, size TerminalSize) error
}

// AttachOptions say which streams of a container to join or to read.
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

// Images is the part of Engine for images.
type Images interface {
	// ListImages lists the top-level images (no intermediate layers), each once.
	// Here and in InspectImage, names by digest are among RepoDigests alone, and
	// no name is listed twice.
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
	// id with at most one tag. A used image fails with ErrConflict, and so does
	// an id with more names.
	RemoveImage(ctx context.Context, ref string) error
	// ForceRemoveImage removes the image with that id ("sha256:…") and all its
	// names in one operation of the engine, also when stopped containers were
	// made from it. The image of a running container, or one that others are
	// built upon, fails with ErrConflict and keeps its names.
	ForceRemoveImage(ctx context.Context, id string) error
}

// PullOptions are the options of Engine.PullImage.
type PullOptions struct {
	// Auth are the credentials for the registry, nil for none. They are never
	// logged.
	Auth *Auth
	// Progress, when not nil, is called whenever a layer gets on: with the next
	// bytes of its download (every MiB at most), while it is extracted, and
	// from one step to the next. A transfer that stands still is silent.
	Progress func(PullPhase)
}

// PullPhase says why a pull may be silent from now on.
type PullPhase int

// The phases of a pull.
const (
	// PullMoves is a transfer whose silence means that it stands still.
	PullMoves PullPhase = iota
	// PullQueued is a transfer whose unfinished layers all wait until the engine,
	// which limits its downloads over all pulls (max-concurrent-downloads), is
	// done with others'. It is silent until its turn comes. With the containerd
	// image store it may be queued from the beginning, and counts as such
	// whenever no layer gets on.
	PullQueued
	// PullUnpacks is a transfer whose layers are there, on an engine that
	// extracts them without a word (containerd image store before API 1.48).
	PullUnpacks
)

// Auth are credentials for a registry.
type Auth struct {
	Username      string
	Password      string
	IdentityToken string
	RegistryToken string
	ServerAddress string
}
