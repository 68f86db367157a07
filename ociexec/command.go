package ociexec

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// Process is a command that was requested from the keeper. The keeper's reports set its fields.
type Process struct {
	dir, container string
	// requested is the time of the request, in ticks since the boot.
	requested uint64
	// console is the socket to which the runtime sends the terminal, nil without a terminal.
	console *net.UnixListener
	cancel  func()

	// started is closed when pid, startErr and terminal are set, and ended when code and endErr are set.
	started, ended chan struct{}
	pid, code      int
	startErr       error
	endErr         error

	mu sync.Mutex
	// terminal is the command's terminal, nil once Terminal or Release has taken it.
	terminal *os.File
	released bool
}

// take applies a report of the keeper. The link calls it for one report at a time.
func (p *Process) take(told report) {
	switch {
	case told.Failed:
		p.startErr = startError(filepath.Join(p.dir, logFile))
		p.endErr = p.startErr
		p.tidy()
		close(p.started)
		close(p.ended)
	case told.Ended:
		p.code = told.Code
		close(p.ended)
	case p.console == nil:
		p.pid = told.PID
		p.tidy()
		close(p.started)
	default:
		p.pid = told.PID
		go p.join() // join ends within consoleTimeout
	}
}

// join receives the terminal of a command that runs.
func (p *Process) join() {
	terminal, err := receiveTerminal(p.console)
	p.startErr = err
	p.tidy()
	p.mu.Lock()
	p.terminal = terminal
	released := p.released
	p.mu.Unlock()
	close(p.started)
	if released {
		p.Release()
	}
}

// lose ends the Process with ErrKeeper. The link calls it if the keeper has ended without reporting a failed start or
// the command's end. If the command has not started yet, lose first ends the processes of its start. startErr has an
// error if one of them lives on.
func (p *Process) lose(keeper string) {
	p.endErr = ErrKeeper
	if p.pid != 0 {
		close(p.ended)
		return
	}
	go func() { // this may outlive the request for the command, by at most deathTimeout
		ctx, cancel := context.WithTimeout(context.Background(), deathTimeout)
		defer cancel()
		p.startErr = errors.Join(ErrKeeper, endStart(ctx, keeper, p.dir))
		p.pid = readPID(filepath.Join(p.dir, pidFile)) // the runtime may have started the command
		killStrays(p.container, p.requested)
		p.tidy()
		close(p.started)
		close(p.ended)
	}()
}

// tidy removes the files and closes the socket of the start.
func (p *Process) tidy() {
	if p.console != nil {
		_ = p.console.Close()
	}
	_ = os.RemoveAll(p.dir)
}

// Terminal returns the terminal of a started command, nil without one. It belongs to the caller.
func (p *Process) Terminal() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	terminal := p.terminal
	p.terminal = nil
	return terminal
}

// Release closes a terminal that the caller does not use, at once or when the runtime sends it.
func (p *Process) Release() {
	p.mu.Lock()
	p.released = true
	p.mu.Unlock()
	if terminal := p.Terminal(); terminal != nil {
		_ = terminal.Close() // closing it loses no data
	}
}

// Cancel ends the start of a command, even if the runtime hangs. A command that has started is left alone.
func (p *Process) Cancel() { p.cancel() }

// Ending returns a channel that is closed when the command or its keeper has ended.
func (p *Process) Ending() <-chan struct{} { return p.ended }

// Started waits until the command runs, and returns its process id. The error is a StartError if the runtime did not
// start the command. With another error and a process id, the command may run, but the caller cannot use it.
func (p *Process) Started(ctx context.Context) (int, error) {
	select {
	case <-p.started:
		return p.pid, p.startErr
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Wait waits for the command's end and returns its exit code. After a signal it is 128 plus the signal's number. A
// command whose keeper was killed may go on.
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
