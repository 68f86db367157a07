package ociexec

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
)

// Process is a command that was asked for. The keeper's reports change it.
type Process struct {
	dir string
	// console is where the runtime sends the terminal, nil without one.
	console *net.UnixListener

	// started and ended are closed when the fields are set.
	started, ended chan struct{}
	pid, code      int
	startErr       error
	endErr         error
	terminal       *os.File
}

// take is called with each report, one at a time.
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

// lose is called instead of the last report.
func (p *Process) lose() {
	p.endErr = ErrKeeper
	if p.pid == 0 {
		p.pid = readPID(filepath.Join(p.dir, pidFile)) // the runtime may be done
		p.startErr = ErrKeeper
		p.tidy()
		close(p.started)
	}
	close(p.ended)
}

// tidy removes what the start needed.
func (p *Process) tidy() {
	if p.console != nil {
		_ = p.console.Close()
	}
	_ = os.RemoveAll(p.dir)
}

// Terminal returns the terminal of a command that has started, which is the caller's, nil without one.
func (p *Process) Terminal() *os.File { return p.terminal }

// Started waits until the command runs, and returns its process id. The error is a StartError if it does not run. With
// another error and a process id it runs, and is of no use to the caller.
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

// Ended reports whether the command has ended, so that its process id may stand for another process.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return !errors.Is(p.endErr, ErrKeeper)
	default:
		return false
	}
}
