package dockertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
)

// Program describes the process of a container, or of a command in a container. With the zero value, a container runs
// until it is signalled, and a command ends at once.
type Program struct {
	// Command is the whole command line, joined by single blanks. An empty Command fits any.
	Command string
	// Image limits the program to containers created from an image of that name. An empty Image fits any. A command in
	// a container has the container's image.
	Image string

	// Exits says that the process ends by itself, after ExitAfter with ExitCode.
	Exits     bool
	ExitAfter time.Duration
	ExitCode  int
	// OOMKilled says that the out-of-memory killer ends the process.
	OOMKilled bool
	// Ignores are signals without effect ("SIGTERM").
	Ignores []string
	// Handles has the exit codes for signals at which the process exits by itself. Any other signal kills it, with the
	// exit code 128 plus the signal's number.
	Handles map[string]int
	// Start is the error of the start, which sets exit code 127. Nil means that the start succeeds.
	Start error

	// Stdout and Stderr are written when the process starts.
	Stdout, Stderr string
	// Echo copies the standard input to the output until the input ends, and then ends the process with ExitCode.
	Echo bool
}

// Behave adds programs before the existing ones. They apply from the next start on.
func (e *Engine) Behave(programs ...Program) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.programs = slices.Concat(programs, e.programs)
}

// program returns the first program for a command line in a container created
// from image. The caller holds the lock.
func (e *Engine) program(image string, command []string) (Program, bool) {
	line := strings.Join(command, " ")
	for _, p := range e.programs {
		if (p.Command == "" || p.Command == line) && (p.Image == "" || normal(p.Image) == normal(image)) {
			return p, true
		}
	}
	return Program{}, false
}

// killed is the exit code of a process that got SIGKILL.
const killed = 128 + 9

// answer reports whether a signal ends the process, and the exit code.
func (p Program) answer(name string) (ends bool, code int) {
	number := signals[name]
	switch {
	case name == "SIGKILL":
		return true, killed
	case slices.Contains(p.Ignores, name) || harmless[name]:
		return false, 0
	}
	if code, ok := p.Handles[name]; ok {
		return true, code
	}
	return true, 128 + number
}

// signals has the signals that tests use, with their numbers on Linux. It is read-only.
var signals = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGABRT": 6, "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12,
	"SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGCHLD": 17, "SIGCONT": 18, "SIGSTOP": 19, "SIGURG": 23,
	"SIGWINCH": 28, "SIGRTMIN": 34,
}

// harmless has the signals that do not end a process without a handler for them. It is read-only.
var harmless = map[string]bool{"SIGCHLD": true, "SIGCONT": true, "SIGSTOP": true, "SIGURG": true, "SIGWINCH": true}

// parseSignal accepts the same forms as the engine: "SIGTERM", "TERM", "15".
func parseSignal(text string) (string, error) {
	if text == "" {
		return "SIGKILL", nil
	}
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if _, ok := signals[name]; ok {
		return name, nil
	}
	for name, number := range signals {
		if fmt.Sprint(number) == text {
			return name, nil
		}
	}
	return "", fmt.Errorf("%w: Invalid signal: %s", errdefs.ErrInvalidArgument, text)
}
