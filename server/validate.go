package server

import (
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
)

// need is a field of a request that must be there.
type need struct {
	// field is its path from the request, "config.metadata.name".
	field   string
	present bool
}

// require fails with ErrInvalidArgument for the first field that is missing.
func require(needs ...need) error {
	for _, n := range needs {
		if !n.present {
			return fmt.Errorf("%s is required: %w", n.field, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// seconds converts a number of seconds of a request. It fails with ErrInvalidArgument for a negative one; one beyond
// what a duration holds is cut down to the longest, some 292 years.
func seconds(field string, n int64) (time.Duration, error) {
	if n < 0 {
		return 0, fmt.Errorf("%s must not be negative, it is %d: %w", field, n, errdefs.ErrInvalidArgument)
	}
	if n > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * time.Second, nil
}
