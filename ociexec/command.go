package ociexec

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
)

// Process is a requested command. The keeper's reports set its fields.
type Process struct {
	dir string
	// console is the socket to which the runtime sends the terminal, nil without a terminal.
	console *net.UnixListener

	// started is closed when pid, startErr and terminal are set, and ended when code and endErr are set.
	started, ended chan struct{}
	pid, code      int
	startErr       error
	endErr         error
	terminal       *os.File
}

// take applies a report of the keeper. The link calls it for one report at a time.
func (p *Process) take(told report) {
	switch {
	case told.Failed:
		p.startErr = startError(filepath.Join(p.dir, logFile))
		p.endErr = p.startErr
	case told.Ended:
		p.code = told.Code
		close(p.ended)
		return
	default:
		p.pid = told.PID
		p.terminal, p.startErr = receiveTerminal(p.console)
	}
	p.tidy()
	close(p.started)
	if told.Failed {
		close(p.ended)
	}
}

// lose ends the Process with ErrKeeper. The link calls it if the keeper has ended without the last report.
func (p *Process) lose() {
	p.endErr = ErrKeeper
	if p.pid == 0 {
		p.pid = readPID(filepath.Join(p.dir, pidFile)) // the runtime may have started the command
		p.startErr = ErrKeeper
		p.tidy()
		close(p.started)
	}
	close(p.ended)
}

// tidy removes the files and closes the socket of the start.
func (p *Process) tidy() {
	if p.console != nil {
		_ = p.console.Close()
	}
	_ = os.RemoveAll(p.dir)
}

// Terminal returns the terminal of a started command, nil without one. It belongs to the caller.
func (p *Process) Terminal() *os.File { return p.terminal }

// Started waits until the command runs, and returns its process id. The error is a StartError if it does not run. With
// another error and a process id, the command runs but the caller cannot use it.
func (p *Process) Started(ctx context.Context) (int, error) {
	select {
	case <-p.started:
		return p.pid, p.startErr
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Wait waits for the command's end and returns its exit code: 128 and the signal's number after a signal. A command
// whose keeper was killed may go on.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.ended:
		return p.code, p.endErr
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Ended reports whether the command has certainly ended. Its process id may then be reused.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return !errors.Is(p.endErr, ErrKeeper)
	default:
		return false
	}
}
