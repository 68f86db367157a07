package translate

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// invalid returns the error for a wrong value of a field from the client. field is a path such as
// "config.metadata.name".
func invalid(field, format string, args ...any) error {
	return errdefs.ErrInvalidArgument.WithMessage(field + ": " + fmt.Sprintf(format, args...))
}

// unsupported returns the error for a field that asks for something that the engine cannot do.
func unsupported(field, format string, args ...any) error {
	return errdefs.ErrNotImplemented.WithMessage(field + ": " + fmt.Sprintf(format, args...))
}

// item returns the path of an element of a list field, such as "config.mounts[2]".
func item(list string, index int) string { return fmt.Sprintf("%s[%d]", list, index) }
