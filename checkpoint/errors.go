package checkpoint

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// corruptError says that a record's file is corrupt: it is not JSON, its checksum does not match, or it is another
// sandbox's record. It matches errdefs.ErrDataLoss.
type corruptError struct {
	// sandboxID is the sandbox whose record is lost.
	sandboxID string
	// path is the file's present path: in the quarantine, or the old path if the move failed. After a failed move, err
	// also has the reason of the failure.
	path string
	// err is the defect of the file.
	err error
}

// Error implements error.
func (e *corruptError) Error() string {
	return fmt.Sprintf("the checkpoint of sandbox %s is corrupt and kept for inspection as %s: %v", e.sandboxID, e.path,
		e.err)
}

// Unwrap makes the error match errdefs.ErrDataLoss and its cause.
func (e *corruptError) Unwrap() []error { return []error{errdefs.ErrDataLoss, e.err} }

// refusedError says that a newer program wrote a record. Its file is neither read, nor written, nor deleted. It matches
// errdefs.ErrFailedPrecondition.
type refusedError struct {
	// path is the record's file.
	path string
	// reason is the part that this program does not know.
	reason string
	// head is the part of the record that List reports.
	head Record
}

// Error implements error.
func (e *refusedError) Error() string {
	return fmt.Sprintf(
		"the checkpoint %s %s: start the newer program again, or move the file away, so that the pod is removed as "+
			"if its checkpoint were lost",
		e.path, e.reason)
}

// Unwrap makes the error match errdefs.ErrFailedPrecondition.
func (e *refusedError) Unwrap() error { return errdefs.ErrFailedPrecondition }
