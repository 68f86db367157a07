package server

import (
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
)

// need is a required field of a request.
type need struct {
	// field is the path from the request, "config.metadata.name".
	field   string
	present bool
}

// require fails with ErrInvalidArgument for the first missing field.
func require(needs ...need) error {
	for _, n := range needs {
		if !n.present {
			return fmt.Errorf("%s is required: %w", n.field, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// seconds converts a number of seconds of a request. A negative number is an ErrInvalidArgument. A number above the
// longest duration, some 292 years, becomes that duration.
func seconds(field string, n int64) (time.Duration, error) {
	if n < 0 {
		return 0, fmt.Errorf("%s must not be negative, it is %d: %w", field, n, errdefs.ErrInvalidArgument)
	}
	if n > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * time.Second, nil
}
