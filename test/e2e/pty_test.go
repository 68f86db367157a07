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

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// session is crictl at work in the background, with a terminal of its own or with pipes.
type session struct {
	t   *testing.T
	cmd *exec.Cmd
	// input is the terminal's other end, or the pipe to the standard input.
	input io.WriteCloser
	// terminal is nil without one.
	terminal *os.File
	// stdout holds all that a terminal shows.
	stdout, stderr *testutil.Buffer
	ended          chan struct{} // closed when cmd was waited for
}

// background starts crictl with pipes. It is killed when the test ends.
func (c *crictl) background(args ...string) *session {
	c.t.Helper()
	s := &session{t: c.t, cmd: c.command(args), stdout: &testutil.Buffer{}, stderr: &testutil.Buffer{}, ended: make(chan struct{})}
	input, err := s.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	s.input, s.cmd.Stdout, s.cmd.Stderr = input, s.stdout, s.stderr
	s.start()
	return s
}

// onTerminal starts crictl on a new terminal of 80 columns and 24 rows. It is killed when the test ends.
func (c *crictl) onTerminal(args ...string) *session {
	c.t.Helper()
	terminal, its := openPTY(c.t)
	s := &session{t: c.t, cmd: c.command(args), input: terminal, terminal: terminal, stdout: &testutil.Buffer{}, stderr: &testutil.Buffer{}, ended: make(chan struct{})}
	s.resize(80, 24)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = its, its, its
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.start()
	_ = its.Close()
	go func() { _, _ = io.Copy(s.stdout, terminal) }()
	return s
}

func (c *crictl) command(args []string) *exec.Cmd {
	return exec.CommandContext(c.t.Context(), c.program, append([]string{"--config", c.config}, args...)...)
}

func (s *session) start() {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // ProcessState says how it ended
	}()
	s.t.Cleanup(s.kill)
}

// openPTY opens a pseudo-terminal, see pts(4).
func openPTY(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// resize changes the size of the terminal; the kernel tells crictl.
func (s *session) resize(columns, rows uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		s.t.Fatal(err)
	}
}

// say types a line.
func (s *session) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.input, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
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
	select {
	case <-s.ended:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		s.t.Fatalf("%v does not end; stdout %q, stderr %q", s.cmd.Args, s.stdout, s.stderr)
		return 0
	}
}

// kill ends crictl without giving it a chance to say good-bye.
func (s *session) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}
