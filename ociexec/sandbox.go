package ociexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/proctable"
)

// Sandbox is a pod's sandbox of a runtime that runs all containers of a pod in one process (gVisor's runsc). Only the
// runtime can look into it. A restarted pod has another Sandbox.
type Sandbox struct {
	id, program, root string
	environ           []string
	// bundles has the bundles of its containers.
	bundles string
}

// FindSandbox finds the sandbox of a pod whose sandbox container has this id and process. It fails with ErrUnsuitable
// if the container was not started by a shim that can be seen here.
func FindSandbox(id string, pid int) (*Sandbox, error) {
	c, bundle, _, err := locate("/proc", id, pid)
	if err != nil {
		return nil, err
	}
	return &Sandbox{id: id, program: c.program, root: c.root, environ: c.environ, bundles: filepath.Dir(bundle)},
		nil
}

// run runs a command of the runtime and returns its output.
func (s *Sandbox) run(ctx context.Context, args ...string) ([]byte, error) {
	output, err := askRuntime(ctx, s.environ, s.program, append([]string{"--root", s.root}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("OCI runtime %s: %w", args[0], err)
	}
	return output, nil
}

// Usage is the resource usage of a container in a sandbox.
type Usage struct {
	// CPU is in nanoseconds since the container's start, Memory in bytes.
	CPU, Memory uint64
	Processes   uint64
}

// Usage returns the usage of a container in the sandbox.
func (s *Sandbox) Usage(ctx context.Context, container string) (Usage, error) {
	output, err := s.run(ctx, "events", "--stats", container)
	if err != nil {
		return Usage{}, err
	}
	var event struct {
		Data struct {
			CPU    struct{ Usage struct{ Total uint64 } }
			Memory struct{ Usage struct{ Usage uint64 } }
			Pids   struct{ Current uint64 }
		}
	}
	if err := json.Unmarshal(output, &event); err != nil {
		return Usage{}, fmt.Errorf("OCI runtime events: %w", err)
	}
	data := event.Data
	return Usage{CPU: data.CPU.Usage.Total, Memory: data.Memory.Usage.Usage, Processes: data.Pids.Current}, nil
}

// Signal signals a command of a container in the sandbox and its descendants. pid is the process on the node that waits
// for the command. A command that has ended is not an error.
func (s *Sandbox) Signal(ctx context.Context, container string, pid int, signal unix.Signal) error {
	files, err := filepath.Glob(filepath.Join(s.bundles, container, "*.pid"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if readPID(file) != pid {
			continue
		}
		inside := readPID(file + ocinote.SandboxPIDSuffix)
		if inside == 0 {
			return fmt.Errorf("the process id of the command in its sandbox is not known (%s)", file)
		}
		err := s.signalTree(ctx, container, inside, signal)
		if errors.Is(err, errNoList) && ctx.Err() == nil && !proctable.Lives(pid) {
			return nil // the container has ended
		}
		return err
	}
	return nil
}

// signalTree signals a process of a container and its descendants, until a search finds no new one. Before a kill it
// stops root, so that root starts nothing more.
func (s *Sandbox) signalTree(ctx context.Context, container string, root int, signal unix.Signal) error {
	send := func(pid int, signal unix.Signal) error {
		_, err := s.run(ctx, "kill", "--pid", strconv.Itoa(pid), container, strconv.Itoa(int(signal)))
		return err
	}
	if signal == unix.SIGKILL {
		_ = send(root, unix.SIGSTOP) // it may have ended
	}
	signalled := map[int]bool{}
	var failed error
	for range killRounds {
		all, err := s.processes(ctx, container)
		if err != nil && signalled[root] && ctx.Err() == nil {
			return nil // the container has ended by the signal
		}
		if err != nil {
			return errors.Join(err, send(root, signal))
		}
		found, tree := 0, proctable.Tree(all, root)
		for _, p := range all {
			if signalled[p.PID] || !slices.Contains(tree, p.PID) {
				continue
			}
			found++
			if err := send(p.PID, signal); err != nil {
				failed = err // a process that has ended is missing from the next search
			} else {
				signalled[p.PID] = true
			}
		}
		if found == 0 {
			return nil
		}
	}
	return errors.Join(errors.New("the command starts processes faster than they can be signalled"), failed)
}

// errNoList says that the runtime does not list the processes of a container.
var errNoList = errors.New("the processes of the container are not known")

// processes lists the processes of a container by their ids in the sandbox. The runtime lists a process group instead
// of a session, and older versions list neither. The runtime's JSON lacks the parents, so processes reads the table.
func (s *Sandbox) processes(ctx context.Context, container string) ([]proctable.Stat, error) {
	output, err := s.run(ctx, "ps", container)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoList, err)
	}
	header, rows, _ := strings.Cut(string(output), "\n")
	columns := strings.Fields(header)
	var all []proctable.Stat
	for row := range strings.Lines(rows) {
		fields := strings.Fields(row)
		number := func(column string) int {
			i := slices.Index(columns, column)
			if i < 0 || i >= len(fields) {
				return 0
			}
			n, err := strconv.Atoi(fields[i])
			if err != nil {
				return 0
			}
			return n
		}
		if p := (proctable.Stat{PID: number("PID"), Parent: number("PPID"), Session: number("PGID")}); p.PID > 0 {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: the runtime lists none", errNoList)
	}
	return all, nil
}

// PortConn is a connection to a port in a sandbox.
type PortConn struct{ *net.UnixConn }

// CloseWrite does nothing. runsc ends the whole connection when one of its directions ends, so the port would lose its
// answer.
func (PortConn) CloseWrite() error { return nil }

// Dial connects to a port on the loopback of the sandbox's network. It takes no longer than askTimeout.
func (s *Sandbox) Dial(ctx context.Context, port uint16) (PortConn, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "criadapter-port-")
	if err != nil {
		return PortConn{}, err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		return PortConn{}, err
	}
	defer listener.Close()
	// The runtime passes its end of the connection to the sandbox, and exits.
	if _, err := s.run(ctx, "port-forward", "--stream", socket, s.id, strconv.Itoa(int(port))); err != nil {
		return PortConn{}, err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	conn, err := listener.AcceptUnix()
	if err != nil {
		return PortConn{}, errors.Join(ctx.Err(), err)
	}
	return PortConn{conn}, nil
}
