// Package process runs a program beside a test or a measurement, with its output in a file.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/rig/logtail"
)

const (
	// stopTimeout is the time after SIGTERM in which a program must end before it is killed.
	stopTimeout = 3 * time.Minute
	// pollInterval is the pause between two checks of Await.
	pollInterval = 20 * time.Millisecond
)

// Process is a program that was started. Its methods must not be called concurrently, except for Ended.
type Process struct {
	// LogPath is the file with its output. Earlier starts with this path have written there, too.
	LogPath string

	cmd   *exec.Cmd
	ended chan struct{} // closed after cmd.Wait
	exit  error         // the error of cmd.Wait, valid once ended is closed
}

// Start starts a program in a process group of its own. A Ctrl-C reaches only the caller, which must stop the program.
// environ is added to the environment, as NAME=value. The output is appended to the file at logPath.
func Start(logPath string, environ []string, program string, args ...string) (*Process, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return Run(logPath, cmd)
}

// Run starts a command. The output is appended to the file at logPath.
func Run(logPath string, cmd *exec.Cmd) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{LogPath: logPath, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name(), err)
	}
	go func() {
		defer close(p.ended)
		p.exit = p.cmd.Wait()
	}()
	return p, nil
}

func (p *Process) name() string { return filepath.Base(p.cmd.Path) }

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running says that the process was started and has not ended. A nil process is not running.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Exit waits for the end, and returns the error of an exit status that is not 0.
func (p *Process) Exit() error {
	<-p.ended
	return p.exit
}

// Kill ends the process as a crash would, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.ended
}

// Stop sends SIGTERM and waits for the end. A process that has not ended after three minutes, or when ctx ends, is
// killed, which is an error. The exit status does not count, because some programs exit with an error after SIGTERM.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s did not end after SIGTERM and was killed", p.name())
	}
}

// Failure is the error of a process that ended by itself, with the end of its output. It waits until the process has
// ended.
func (p *Process) Failure() error {
	<-p.ended
	exit := cmp.Or(p.exit, errors.New("exit status 0"))
	return fmt.Errorf("%s ended by itself: %w; the end of its output:\n%s", p.name(), exit, p.LogTail())
}

// LogTail returns the last 8 KiB of the output, or the error of reading it.
func (p *Process) LogTail() string { return logtail.Read(p.LogPath, 8<<10) }

// Await repeats ready until it returns nil, the process ends, or ctx ends.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return p.Failure()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; the end of its output:\n%s", p.name(), err, p.LogTail())
		case <-ticker.C:
		}
	}
}
