package ociexec

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The runtime succeeds, and the sandbox never connects.
func TestDialEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	_, err := (&Sandbox{program: fakeRuntime(t, "exit 0")}).Dial(ctx, 80)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
	testutil.Assert(t, time.Since(begun) < askTimeout, "it took %v", time.Since(begun))
}
