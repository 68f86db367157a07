package command

import (
	"fmt"
)

// ExitError ends the program with a code and without a message, because the command has printed its result.
type ExitError struct {
	Code int
}

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }
