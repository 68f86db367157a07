package debian

import (
	"context"
	"errors"
	"time"

	"github.com/criadapter/criadapter/internal/pace"
)

// not is a shell function for lines that must fail. "! command" would not do: sh -e goes on when that command succeeds.
const not = `not() { if "$@"; then echo "unexpected success: $*" >&2; exit 1; fi; }` + "\n"

// Script is a command that runs lines of a shell script. A line that begins with the word not must fail, and no other
// line may fail. The lines and what they expand to are part of the output.
func Script(lines string) []string { return []string{"sh", "-euxc", not + lines} }

// Wait repeats check until it returns nil, or ctx ends.
func Wait(ctx context.Context, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		if ended := pace.Sleep(ctx, 200*time.Millisecond); ended != nil {
			return errors.Join(ended, err)
		}
	}
}
