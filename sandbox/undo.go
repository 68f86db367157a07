package sandbox

import (
	"context"
	"fmt"
	"time"
)

// undoTimeout bounds the roll-back of one failed set-up.
const undoTimeout = 30 * time.Second

// undoStack has an undo for each step done so far.
type undoStack []undoStep

type undoStep struct {
	what string
	undo func(context.Context) error
}

func (u *undoStack) push(what string, undo func(context.Context) error) {
	*u = append(*u, undoStep{what, undo})
}

// unwind undoes the steps, the newest first, even if ctx has ended. It stops at the first error. While the container
// or the checkpoint is left, the pod stays visible and can be removed again.
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
