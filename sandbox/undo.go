package sandbox

import (
	"context"
	"fmt"
	"time"
)

// undoTimeout bounds the roll-back of one failed set-up.
const undoTimeout = 30 * time.Second

// undoStack holds how to take back the steps done so far.
type undoStack []undoStep

type undoStep struct {
	what string
	undo func(context.Context) error
}

func (u *undoStack) push(what string, undo func(context.Context) error) {
	*u = append(*u, undoStep{what, undo})
}

// unwind takes the steps back, the newest first, on a context that does not depend on the one that may just have ended.
// It ends at the first undo that fails, with its error: what lies below (the container and its checkpoint) is what
// makes the rest visible for a retry.
func (u undoStack) unwind(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	for i := len(u) - 1; i >= 0; i-- {
		if err := u[i].undo(ctx); err != nil {
			return fmt.Errorf("roll-back: cannot %s, the pod stays as NOTREADY until it is removed: %w", u[i].what, err)
		}
	}
	return nil
}
