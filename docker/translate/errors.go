package translate

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// invalid says that the client's value of a field is wrong. field is a path
// such as "config.metadata.name".
func invalid(field, format string, args ...any) error {
	return errdefs.ErrInvalidArgument.WithMessage(field + ": " + fmt.Sprintf(format, args...))
}

// unsupported says that a field asks for something that the engine cannot do.
func unsupported(field, format string, args ...any) error {
	return errdefs.ErrNotImplemented.WithMessage(field + ": " + fmt.Sprintf(format, args...))
}

// item names one element of a list field, "config.mounts[2]".
func item(list string, index int) string { return fmt.Sprintf("%s[%d]", list, index) }
