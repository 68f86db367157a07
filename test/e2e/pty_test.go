package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// session is crictl at work in the background, with a terminal of its own or with pipes.
type session struct {
	t   *testing.T
	cmd *exec.Cmd
	// input is the terminal's other end, or the pipe to the standard input.
	input io.WriteCloser
	// terminal is nil if crictl runs with pipes.
	terminal *os.File
	// stdout holds the standard output, or both streams of a terminal.
	stdout, stderr *testutil.Buffer
	ended          chan struct{} // closed after cmd.Wait
}

// background starts crictl with pipes. It is killed when the test ends.
func (c *crictl) background(args ...string) *session {
	c.t.Helper()
	s := &session{t: c.t, cmd: c.command(args...), stdout: &testutil.Buffer{}, stderr: &testutil.Buffer{},
		ended: make(chan struct{})}
	input, err := s.cmd.StdinPipe()
	testutil.Must(c.t, err)
	s.input, s.cmd.Stdout, s.cmd.Stderr = input, s.stdout, s.stderr
	s.start()
	return s
}

// onTerminal starts crictl on a new terminal of 80 columns and 24 rows. It is killed when the test ends.
func (c *crictl) onTerminal(args ...string) *session {
	c.t.Helper()
	terminal, its := testutil.Terminal(c.t)
	s := &session{t: c.t, cmd: c.command(args...), input: terminal, terminal: terminal, stdout: &testutil.Buffer{},
		stderr: &testutil.Buffer{}, ended: make(chan struct{})}
	s.resize(80, 24)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = its, its, its
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.start()
	_ = its.Close()
	go func() { _, _ = io.Copy(s.stdout, terminal) }()
	return s
}

func (c *crictl) command(args ...string) *exec.Cmd {
	return exec.CommandContext(c.t.Context(), c.program, append([]string{"--config", c.config}, args...)...)
}

func (s *session) start() {
	s.t.Helper()
	testutil.Must(s.t, s.cmd.Start())
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // ProcessState says how it ended
	}()
	s.t.Cleanup(s.kill)
}

// resize changes the size of the terminal; the kernel signals crictl.
func (s *session) resize(columns, rows uint16) {
	s.t.Helper()
	testutil.ResizeTerminal(s.t, s.terminal, columns, rows)
}

// say types a line.
func (s *session) say(line string) {
	s.t.Helper()
	_, err := io.WriteString(s.input, line+"\n")
	testutil.Must(s.t, err)
}

// expect waits until text was shown.
func (s *session) expect(text string) {
	s.t.Helper()
	testutil.Eventually(s.t, func() error {
		if shown := s.stdout.String(); !strings.Contains(shown, text) {
			return fmt.Errorf("%q is not shown; stdout %q, stderr %q", text, shown, s.stderr)
		}
		return nil
	})
}

// wait waits for the end and returns the exit code.
func (s *session) wait() int {
	s.t.Helper()
	testutil.Receive(s.t, s.ended, "%v does not end; stdout %q, stderr %q", s.cmd.Args, s.stdout, s.stderr)
	return s.cmd.ProcessState.ExitCode()
}

// sized waits until a shell on the terminal says that it has this size. The shell may start before the terminal has the
// size.
func (s *session) sized(columns, rows int) {
	s.t.Helper()
	testutil.Eventually(s.t, func() error {
		s.say("echo size $(stty size)")
		time.Sleep(100 * time.Millisecond)
		if !strings.Contains(s.stdout.String(), fmt.Sprintf("size %d %d", rows, columns)) {
			return fmt.Errorf("the size is not %d columns and %d rows: %q", columns, rows, s.stdout)
		}
		return nil
	})
}

// kill ends crictl with SIGKILL, so that crictl cannot end its session.
func (s *session) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}
