package streaming

import (
	"context"
	"io"
	"net"

	"github.com/criadapter/criadapter/internal/netns"
)

// Runtime connects clients to processes and networks. Its methods must be safe for concurrent use, and return when ctx
// ends because the client is gone.
type Runtime interface {
	// Exec runs a command in a running container. It returns the exit code when the command has ended and all its
	// output is written.
	Exec(ctx context.Context, containerID string, command []string, streams Streams) (exitCode int, err error)
	// Attach connects the streams of a running container until the container ends.
	Attach(ctx context.Context, containerID string, streams Streams) error
	// Network returns the network of a pod's ports.
	Network(ctx context.Context, sandboxID string) (Network, error)
}

// Size is the size of a terminal in characters.
type Size = struct{ Width, Height uint16 }

// Streams are the client's ends of a process's streams. A stream that the client did not ask for is nil. A read of
// Stdin may wait until the client is gone or the call has returned.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY says that the client asked for a terminal. All output goes to Stdout then.
	TTY bool
	// Resize has the sizes of the client's terminal until it is closed or the call's context ends.
	Resize <-chan Size
}

// Network is a network in which a pod's ports can be reached on loopback.
type Network struct {
	// Host says that the network is the node's own. The zero value reaches no port.
	Host bool
	// Namespace is the pod's own network namespace, if it has one.
	Namespace netns.Handle
	// Dial connects to a port of a pod whose ports only its runtime can reach. If Dial is set, Host and Namespace have
	// no effect.
	Dial func(ctx context.Context, port uint16) (Conn, error)
}

// Conn is a connection whose two directions end independently.
type Conn interface {
	net.Conn
	CloseWrite() error
}
