package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/rig/logtail"
)

// stopTimeout is how long a process may take to end after SIGTERM before it is killed.
const stopTimeout = 10 * time.Second

// Process is a program that was started, with its output in a file. Its methods must not be called concurrently, except
// for Ended.
type Process struct {
	// Name is the program's, for messages; LogPath is where its output goes, of all starts with this path.
	Name, LogPath string

	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd was waited for
	exit  error         // what Wait said, to be read after ended
}

// StartProcess starts a program in a process group of its own.
func StartProcess(name, logPath, program string, args ...string) (*Process, error) {
	return StartProcessWith(nil, name, logPath, program, args...)
}

// StartProcessWith is StartProcess with more variables of the environment, NAME=value.
func StartProcessWith(environ []string, name, logPath, program string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{Name: name, LogPath: logPath, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, append(os.Environ(), environ...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.exit = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the process as a crash would, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.ended
}

// Stop asks the process to end and waits for it. One that has to be killed is an error; its exit code is not looked at,
// because some programs end with another than 0 when they are asked to.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM and was killed", p.Name, stopTimeout)
	}
}

// failure says that the process ended by itself, with the end of its output.
func (p *Process) failure() error {
	return fmt.Errorf("%s ended by itself: %w; it said:\n%s", p.Name, p.exit, p.LogTail())
}

// LogTail returns the last 8 KiB of the output, or why it cannot be read.
func (p *Process) LogTail() string {
	return logtail.Read(p.LogPath, 8<<10)
}

// readyPause lies between two questions whether a program is ready; none of them tells it by itself.
const readyPause = 50 * time.Millisecond

// awaitReady asks until ready returns nil, the process ends or ctx does.
func (p *Process) awaitReady(ctx context.Context, ready func(context.Context) error) error {
	ticker := time.NewTicker(readyPause)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; the end of its output:\n%s", p.Name, err, p.LogTail())
		case <-ticker.C:
		}
	}
}
