package command

import (
	"fmt"
)

// ExitError ends the program with a code and without another word: the command has printed what there is to say.
type ExitError struct {
	Code int
}

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }
