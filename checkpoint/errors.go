package checkpoint

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// corruptError says that the file of a record could not be trusted: it is not JSON, its checksum does not match, or it
// is the record of another sandbox. It matches errdefs.ErrDataLoss.
type corruptError struct {
	// sandboxID is the sandbox whose record is lost.
	sandboxID string
	// path is where the file is now: in the quarantine, or at its old place
	// when it could not be moved (then Err says why).
	path string
	// err is what is wrong with the file.
	err error
}

// Error implements error.
func (e *corruptError) Error() string {
	return fmt.Sprintf("the checkpoint of sandbox %s is corrupt and kept for inspection as %s: %v", e.sandboxID, e.path, e.err)
}

// Unwrap makes the error match errdefs.ErrDataLoss and its cause.
func (e *corruptError) Unwrap() []error { return []error{errdefs.ErrDataLoss, e.err} }

// refusedError says that a record was written by a newer program. The file is left as it is and refused for reading,
// writing and deletion. It matches errdefs.ErrFailedPrecondition.
type refusedError struct {
	// path is the record's file.
	path string
	// reason is what this program does not know of it.
	reason string
	// head is what List reports of the record.
	head Record
}

// Error implements error.
func (e *refusedError) Error() string {
	return fmt.Sprintf("the checkpoint %s %s: start the newer program again, or move the file away to have the pod removed like one whose checkpoint is lost",
		e.path, e.reason)
}

// Unwrap makes the error match errdefs.ErrFailedPrecondition.
func (e *refusedError) Unwrap() error { return errdefs.ErrFailedPrecondition }

// notFound is the error for a sandbox without a record.
func notFound(sandboxID string) error {
	return fmt.Errorf("sandbox %s has no checkpoint: %w", sandboxID, errdefs.ErrNotFound)
}
