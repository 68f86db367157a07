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

// Engine is the part of Docker Engine that criadapter uses. All methods are safe for concurrent use, end when their
// context ends, and return errors typed with github.com/containerd/errdefs. From any call, ErrUnavailable means that
// the engine could not be reached or did not answer. ErrFailedPrecondition means that the engine cannot run pods here,
// and the error's text says why.
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
	// Features returns the features of the engine on the current connection. It reads them once per connection, and
	// then answers from memory. While the engine is away, it fails with ErrUnavailable and the reason.
	Features(ctx context.Context) (Features, error)
	// Ping asks the engine whether it answers.
	Ping(ctx context.Context) error
	// LastAnswer returns when the engine last answered any request, even with an error. It is zero before the first
	// answer. Events are not answers.
	LastAnswer() time.Time
	// LastTimeout returns when a request last waited too long for its answer: nine seconds, or half of RequestTimeout
	// if this is less. It is zero if no request has waited so long. Only requests that Options.RequestTimeout bounds
	// count. A stop's wait begins after its grace period. A later answer or a nearer deadline of the caller changes
	// nothing.
	LastTimeout() time.Time
	// Events passes container, exec and image events since opts.Since (zero: from now on) to opts.Handle, one at a time
	// and in the engine's order. It ends when ctx ends, the connection breaks, or Handle is tens of thousands of events
	// behind. It always returns a non-nil error. The caller must then look up the changes since the last event.
	Events(ctx context.Context, opts EventsOptions) error
}

// EventsOptions are the options of Engine.Events.
type EventsOptions struct {
	// Since asks the engine to replay events from that time on. Engines keep only their last 256 events, and forget
	// them at a restart.
	Since time.Time
	// Subscribed is called when the engine has accepted the subscription, before the first event. No later event is
	// missed. It may be nil.
	Subscribed func()
	// Handle is called for each event, in the goroutine that called Events.
	Handle func(Event)
}

// Containers is the part of Engine for containers. An id may be a container's full id or its name.
type Containers interface {
	// CreateContainer creates a container and returns its full id. It fails with ErrConflict for a name in use, and
	// with ErrNotFound for a missing image.
	CreateContainer(ctx context.Context, spec ContainerSpec) (string, error)
	// StartContainer starts a created or exited container. It succeeds for a running container. A start that has begun
	// goes on after the end of ctx.
	StartContainer(ctx context.Context, id string) error
	// StopContainer sends the container's stop signal, waits up to grace, and then kills the container. It returns when
	// the container has stopped. It succeeds for a container that does not run. A stop that has begun goes on after the
	// end of ctx.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// KillContainer sends a signal such as "SIGKILL". It fails with ErrConflict for a container that does not run.
	KillContainer(ctx context.Context, id, signal string) error
	// RemoveContainer kills the container if it runs and removes it with its
	// anonymous volumes.
	RemoveContainer(ctx context.Context, id string) error
	// UpdateContainer changes the resources of a container.
	UpdateContainer(ctx context.Context, id string, resources container.Resources) error
	// LimitNote replaces the limits in the container's note and returns the old ones. The new limits apply from the
	// container's next start on. It does nothing for a container without a note. LimitNote, Adjust and Adjustment find
	// a note by the container's full id only, not by its name.
	LimitNote(ctx context.Context, id string, limits NoteLimits) (NoteLimits, error)
	// Adjust puts the changes of plugins into the note of a container that has not started. It fails with
	// errdefs.ErrNotImplemented for a container without a note.
	Adjust(ctx context.Context, id string, adjustment ocinote.Adjustment) error
	// Adjustment returns the changes of plugins in a container, nil for none.
	Adjustment(ctx context.Context, id string) (*ocinote.Adjustment, error)
	// InspectContainer returns the engine's state of one container. The state is always current, whereas a list may lag
	// behind a die event.
	InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error)
	// ListContainers lists the containers that have all labels, in any state. A label with an empty value matches any
	// value.
	ListContainers(ctx context.Context, labels map[string]string) ([]container.Summary, error)
}

// ContainerSpec is a container to create. Config, Host and Network are sent as they are. If the connected engine is too
// old for a field, the field is refused with ErrNotImplemented before anything is sent. Old engines ignore unknown
// fields silently.
type ContainerSpec struct {
	Name    string
	Config  *container.Config
	Host    *container.HostConfig
	Network *network.NetworkingConfig
	// Note has settings that the Docker API cannot express. Features.OCIRuntime reads it, and runs in front of the
	// container's own runtime. Nil means no note.
	Note *ocinote.Note `json:",omitempty"`
	// NetworkPath returns the path of the network namespace that the container with this id joins. CreateContainer
	// writes the path into the note. It may be nil.
	NetworkPath func(id string) string `json:"-"`
}

// NoteLimits are the limits in a container's note, see ocinote.Note.
type NoteLimits struct {
	HugepageLimits map[string]uint64
	Unified        map[string]string
}

// Checkpoints is the part of Engine that checkpoints and restores containers. Calls that need CRIU fail on an engine
// without it, see Features.NoCheckpoint.
type Checkpoints interface {
	// PauseContainer freezes all processes of a running container. It fails with ErrConflict for a paused container.
	PauseContainer(ctx context.Context, id string) error
	// UnpauseContainer lets the processes of a paused container run again. It fails for a container that is not paused.
	// The type of this error depends on the engine.
	UnpauseContainer(ctx context.Context, id string) error
	// CreateCheckpoint writes the processes of a container with CRIU into the directory dir/name, which it makes. The
	// processes go on afterwards. A paused container cannot be checkpointed before engine 23. Only ctx bounds the call.
	CreateCheckpoint(ctx context.Context, id, dir, name string) error
	// RestoreContainer starts a created container from the checkpoint in its own directory checkpoints/name. Only ctx
	// bounds the call.
	RestoreContainer(ctx context.Context, id, name string) error
	// ListChanges lists a container's changes to its image's files.
	ListChanges(ctx context.Context, id string) ([]container.FilesystemChange, error)
	// CopyToContainer extracts a tar archive into the directory dir of a container. The files keep the archive's
	// owners. A container with a read-only root takes files only in its volumes.
	CopyToContainer(ctx context.Context, id, dir string, archive io.Reader) error
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

// Attachments is the part of Engine for the streams and terminals of processes.
type Attachments interface {
	// AttachContainer joins the streams of a running container, from now on. The stream ends when the container does,
	// or when it is closed. CloseWrite ends the container's standard input if the container was created with StdinOnce,
	// and the attachment otherwise. AttachContainer also succeeds for an ended container, whose stream is silent until
	// the next start. So the caller must check afterwards whether the container runs. If the container ends during the
	// call, the stream and its input may stay open.
	AttachContainer(ctx context.Context, id string, opts AttachOptions) (Stream, error)
	// ContainerLogs returns the container's log of the streams in opts, in the form of Stream.Read. The caller closes
	// it.
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

// Stream is a bidirectional connection to a process. Without a TTY, Read returns multiplexed output (see Demultiplex).
// Close ends both directions.
type Stream interface {
	io.ReadWriteCloser
	// CloseWrite ends the standard input and leaves the output open.
	CloseWrite() error
}

// Images is the part of Engine for images.
type Images interface {
	// ListImages lists the images without intermediate layers, each once. In its results and in the results of
	// InspectImage, only RepoDigests has names by digest, and no name is listed twice.
	ListImages(ctx context.Context) ([]image.Summary, error)
	// InspectImage looks an image up by id, tag or digest.
	InspectImage(ctx context.Context, ref string) (*image.InspectResponse, error)
	// PullImage pulls ref ("name:tag" or "name@digest") and returns when the image is complete. It fails with
	// ErrNotFound if the registry does not have the image, and with ErrUnauthenticated if it refuses the credentials.
	// It fails with ErrRegistryUnavailable if the registry cannot be reached, and with ErrMediaType for content that
	// the engine does not keep.
	PullImage(ctx context.Context, ref string, opts PullOptions) error
	// LoadImage loads an archive in the format of docker save.
	LoadImage(ctx context.Context, archive io.Reader) error
	// SaveImage writes an image to archive, in the format of docker save: its layers as they were pulled, and
	// manifest.json with their order. After an error the archive is unusable. If a write to archive fails, the error
	// wraps the write error.
	SaveImage(ctx context.Context, ref string, archive io.Writer) error
	// TagImage gives an image one more name.
	TagImage(ctx context.Context, source, target string) error
	// RemoveImage removes one name of an image, or the image if ref is an id with at most one tag. It fails with
	// ErrConflict for a used image, and for an id with more names.
	RemoveImage(ctx context.Context, ref string) error
	// ForceRemoveImage removes the image with that id ("sha256:…") and all its names in one operation of the engine.
	// Stopped containers do not prevent it. It fails with ErrConflict for the image of a running container and for the
	// parent of another image. Such an image keeps its names.
	ForceRemoveImage(ctx context.Context, id string) error
}

// PullOptions are the options of Engine.PullImage.
type PullOptions struct {
	// Auth has the credentials for the registry, nil for none. They are never logged.
	Auth *Auth
	// Progress is called when a layer makes progress: with each MiB of its download, while it is extracted, and at each
	// new step. It is not called while a transfer stalls. It may be nil.
	Progress func(PullPhase)
}

// PullPhase says why a pull may be silent from now on.
type PullPhase int

// The phases of a pull.
const (
	// PullMoves is the phase of a transfer that reports its progress. If it is silent, it has stalled.
	PullMoves PullPhase = iota
	// PullQueued is a transfer whose unfinished layers all wait for other pulls: the engine limits its downloads over
	// all pulls (max-concurrent-downloads). It is silent until its turn comes. With the containerd image store it may
	// be queued from the beginning, and counts as queued whenever no layer makes progress.
	PullQueued
	// PullUnpacks is a transfer that has downloaded all layers, on an engine that extracts them silently (containerd
	// image store before API 1.48).
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
