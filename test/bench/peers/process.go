package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
	pollInterval = 20 * time.Millisecond
)

// Process is a program that runs until it is stopped.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it was waited for
	log  string
}

// StartProcess starts a program with additions to the environment. Its output is added to the file log.
func StartProcess(log string, environ []string, program string, args ...string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &Process{cmd: exec.Command(program, args...), done: make(chan struct{}), log: log}
	p.cmd.Env = append(os.Environ(), environ...)
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for its caller, which stops it in order
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the program to end, and kills it when it does not within 20 seconds or by the end of ctx.
func (p *Process) Stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has just ended
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s did not end after SIGTERM and was killed", p.cmd.Path)
	}
}

// Kill ends the program as a crash does, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only when it has just ended
	<-p.done
}

// logTail is the last lines of a file, or why it cannot be read.
func logTail(path string) string {
	const tail = 40
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-tail):], "\n")
}

// Failed is err with the end of the program's log.
func (p *Process) Failed(err error) error {
	return fmt.Errorf("%w; the end of its log:\n%s", err, logTail(p.log))
}

// wait repeats check until it succeeds, the program has ended, or half a minute is over.
func (p *Process) wait(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.Failed(errors.New("it exited"))
		case <-ctx.Done():
			return p.Failed(err)
		case <-time.After(pollInterval):
		}
	}
}
