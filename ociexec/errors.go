package ociexec

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ErrUnsuitable says that a container's commands need the engine. An error that wraps it has the reason.
var ErrUnsuitable = errors.New("the OCI runtime cannot be called directly")

// ErrKeeper says that the keeper ended before its command did. The command may go on.
var ErrKeeper = errors.New("the keeper of the commands has ended")

func unsuitable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnsuitable, fmt.Errorf(format, args...))
}

// StartError is the runtime's reason for not starting a command. Nothing of the command ran.
type StartError struct {
	// message is the runtime's last error, as in its log.
	message string
	// ExitCode is the exit code that a shell would return: 127 for a missing program, 126 for a program that cannot be
	// run, and 0 if the reason is not the command.
	ExitCode int
}

// Error implements error.
func (e *StartError) Error() string { return "OCI runtime exec failed: " + e.message }

// startError reads the runtime's reason from its log.
func startError(path string) error {
	message := lastError(path)
	return &StartError{message: message, ExitCode: shellCode(message)}
}

// aboutCommand has parts of runc's errors about the command's program.
var aboutCommand = []string{`exec: "`, "exec /"}

// reasons are the errors of programs that cannot be run.
var reasons = []struct {
	text string
	code int
}{
	{"not found in $path", 127},
	{"no such file or directory", 127},
	{"permission denied", 126},
	{"exec format error", 126},
	{"is a directory", 126},
	{"not a directory", 126},
}

// aboutRuntime is a part of runc's error if it cannot start its own program.
const aboutRuntime = "fork/exec /"

// shellCode returns the exit code of a shell for a runtime's error, 0 if the error is not about the command.
func shellCode(message string) int {
	if strings.Contains(message, aboutRuntime) {
		return 0
	}
	if !slices.ContainsFunc(aboutCommand, func(part string) bool { return strings.Contains(message, part) }) {
		return 0
	}
	for _, reason := range reasons {
		if strings.Contains(strings.ToLower(message), reason.text) {
			return reason.code
		}
	}
	return 0
}

// lastError returns the last line of level error in a runtime's log.
func lastError(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	last := "the runtime gave no reason"
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Level, Msg string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Level == "error" {
			last = line.Msg
		}
	}
	return last
}
