package streaming

import (
	"context"
	"io"

	"github.com/criadapter/criadapter/internal/netns"
)

// Runtime is what clients are connected to. Its methods must be safe for
// concurrent use, and return when ctx ends: the client is gone then.
type Runtime interface {
	// Exec runs a command in a running container and returns its exit code when
	// it has ended and all its output is written.
	Exec(ctx context.Context, containerID string, command []string, streams Streams) (exitCode int, err error)
	// Attach connects the streams of a running container from now on until it ends.
	Attach(ctx context.Context, containerID string, streams Streams) error
	// Network returns where the ports of a pod are.
	Network(ctx context.Context, sandboxID string) (Network, error)
}

// Size is the size of a terminal in characters.
type Size = struct{ Width, Height uint16 }

// Streams are the client's ends of a process's streams; nil for those that the client did not ask for. A read of Stdin
// may wait until the client is gone or the call has returned.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY says that the client asked for a terminal. All output goes to Stdout then.
	TTY bool
	// Resize brings the sizes of the client's terminal until it is closed or the call's context ends.
	Resize <-chan Size
}

// Network is a network in which a pod's ports can be reached on loopback.
type Network struct {
	// Host says that it is the node's own. The zero value reaches nothing.
	Host bool
	// Namespace is the pod's, if it has one of its own.
	Namespace netns.Handle
}
