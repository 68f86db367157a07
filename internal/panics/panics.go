// Package panics reports a panic that ends only the work that panicked, instead of the program.
package panics

import (
	"fmt"
	"runtime/debug"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// Report logs a panic with its stack as "KIND panicked". Call it in the deferred function that recovered cause. It
// returns an errdefs.ErrInternal for the client, which names the work and has neither the panic's value nor the stack.
func Report(logger *log.Entry, kind, work string, cause any) error {
	logger.WithFields(log.Fields{"panic": fmt.Sprint(cause), "stack": string(debug.Stack())}).Error(kind + " panicked")
	return fmt.Errorf("%s failed unexpectedly, see the log of criadapter: %w", work, errdefs.ErrInternal)
}
