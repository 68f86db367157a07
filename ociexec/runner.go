package ociexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Runner runs commands through the OCI runtime. Close ends its keeper and all commands.
type Runner struct {
	// dir belongs to this start. It has a directory for each command that starts.
	dir   string
	lock  *os.File
	proc  string
	kinds kinds

	mu     sync.Mutex
	link   *link
	next   uint64
	closed bool
}

// New makes a Runner with its files in a new directory in dir. It removes the directories of earlier Runners, except
// where the Runner or its keeper lives.
func New(dir string) (*Runner, error) {
	own, lock, err := claim(dir)
	if err != nil {
		return nil, err
	}
	return &Runner{dir: own, lock: lock, proc: "/proc"}, nil
}

// Close kills all commands and waits until their keeper has ended. No command starts later.
func (r *Runner) Close() {
	r.mu.Lock()
	l := r.link
	r.link, r.closed = nil, true
	r.mu.Unlock()
	if l != nil {
		l.close()
	}
	_ = r.lock.Close()
	_ = os.RemoveAll(r.dir) // on failure the next start removes it
}

// Start requests a command with the three files as its standard streams. The files stay the caller's. A nil file stands
// for the null device. With a terminal all three are nil. If ctx ends before the keeper has the request, the command
// does not start.
func (r *Runner) Start(
	ctx context.Context, c *Container, command Command, streams [3]*os.File,
) (*Process, error) {
	spec, err := c.spec(command)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(r.dir, "") // a short name, because of the limit for paths of sockets
	if err != nil {
		return nil, err
	}
	p := &Process{dir: dir, container: c.id, started: make(chan struct{}), ended: make(chan struct{})}
	p.requested, err = ticksNow()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, processFile), spec, 0o600)
	}
	if err == nil && command.Terminal {
		p.console, err = listenConsole(dir)
	}
	if err == nil {
		err = r.ask(ctx, p, c.request(dir, p.console != nil), streams)
	}
	if err != nil {
		p.tidy()
		return nil, err
	}
	return p, nil
}

// The files of a command that starts.
const (
	processFile = "process.json"
	pidFile     = "pid"
	logFile     = "log.json"
	consoleFile = "console"
)

// request is the runtime's command line, as containerd's shim writes it.
func (c *Container) request(dir string, terminal bool) request {
	args := []string{c.program, "--root", c.root, "--log", filepath.Join(dir, logFile), "--log-format", "json"}
	if c.systemd {
		args = append(args, "--systemd-cgroup")
	}
	pid := filepath.Join(dir, pidFile)
	args = append(args, "exec", "--process", filepath.Join(dir, processFile))
	if terminal {
		args = append(args, "--console-socket", filepath.Join(dir, consoleFile))
	}
	args = append(args, "--detach", "--pid-file", pid, c.id)
	return request{Args: args, Env: c.environ, Umask: c.umask, PIDFile: pid}
}

// ask sends a request to the keeper. If there is no keeper, or it has ended, ask starts one.
func (r *Runner) ask(ctx context.Context, p *Process, ask request, streams [3]*os.File) error {
	const tries = 2 // the keeper can end before it gets the first request
	var err error
	for range tries {
		var l *link
		if l, ask.ID, err = r.join(); err != nil {
			return fmt.Errorf("starting the keeper of commands: %w", err)
		}
		p.cancel = func() { l.cancel(ask.ID) }
		if err = l.send(ctx, p, ask, streams); !errors.Is(err, errUnsent) {
			return err
		}
		select {
		case <-l.done: // the keeper was killed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// join returns the keeper's link, with an id for the next request. It starts a keeper if none runs.
func (r *Runner) join() (*link, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, 0, errors.New("the server ends")
	}
	if r.link == nil || r.link.broken() {
		l, err := newLink(r.lock)
		if err != nil {
			return nil, 0, err
		}
		r.link = l
	}
	r.next++
	return r.link, r.next, nil
}
