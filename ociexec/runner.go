package ociexec

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Runner runs commands through the OCI runtime. Close ends its keeper and all commands.
type Runner struct {
	// dir has a directory for each command that starts.
	dir   string
	proc  string
	kinds kinds

	mu   sync.Mutex
	link *link
	next uint64
}

// New makes a Runner with its files in dir. The Runner owns dir, and New empties it.
func New(dir string) (*Runner, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Runner{dir: dir, proc: "/proc"}, nil
}

// Close kills all commands and waits until their keeper has ended.
func (r *Runner) Close() {
	r.mu.Lock()
	l := r.link
	r.link = nil
	r.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// Start requests a command with the three files as its standard streams. The files stay the caller's. A nil file stands
// for the null device. With a terminal all three are nil.
func (r *Runner) Start(c *Container, command Command, streams [3]*os.File) (*Process, error) {
	spec, err := c.spec(command)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(r.dir, "command-")
	if err != nil {
		return nil, err
	}
	p := &Process{dir: dir, started: make(chan struct{}), ended: make(chan struct{})}
	err = os.WriteFile(filepath.Join(dir, processFile), spec, 0o600)
	if err == nil && command.Terminal {
		p.console, err = listenConsole(dir)
	}
	if err == nil {
		err = r.ask(p, c.request(dir, p.console != nil), streams)
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
	return request{Container: c.id, Args: args, Env: c.environ, Umask: c.umask, PIDFile: pid}
}

// ask sends a request to the keeper, which it starts if there is none.
func (r *Runner) ask(p *Process, ask request, streams [3]*os.File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == nil || r.link.broken() {
		l, err := newLink()
		if err != nil {
			return fmt.Errorf("starting the keeper of commands: %w", err)
		}
		r.link = l
	}
	r.next++
	ask.ID = r.next
	return r.link.send(p, ask, streams)
}
