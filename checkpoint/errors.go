package checkpoint

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// CorruptError says that the file of a record could not be trusted: it is not
// JSON, its checksum does not match, or it is the record of another sandbox.
// It matches errdefs.ErrDataLoss.
type CorruptError struct {
	// SandboxID is the sandbox whose record is lost.
	SandboxID string
	// Path is where the file is now: in the quarantine, or at its old place
	// when it could not be moved (then Err says why).
	Path string
	// Err is what is wrong with the file.
	Err error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the checkpoint of sandbox %s is corrupt and kept for inspection as %s: %v", e.SandboxID, e.Path, e.Err)
}

// Unwrap makes the error match errdefs.ErrDataLoss and its cause.
func (e *CorruptError) Unwrap() []error { return []error{errdefs.ErrDataLoss, e.Err} }

// VersionError says that a record was written by a newer program. The file is
// left as it is and refused for reading, writing and deletion. It matches
// errdefs.ErrFailedPrecondition.
type VersionError struct {
	// Path is the record's file.
	Path string
	// Version is the file's schema version, higher than SchemaVersion.
	Version int
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the checkpoint %s has schema version %d and this program knows up to %d: start the newer program again, or move the file away once its pod is gone",
		e.Path, e.Version, SchemaVersion)
}

// Unwrap makes the error match errdefs.ErrFailedPrecondition.
func (e *VersionError) Unwrap() error { return errdefs.ErrFailedPrecondition }

// notFound is the error for a sandbox without a record.
func notFound(sandboxID string) error {
	return fmt.Errorf("sandbox %s has no checkpoint: %w", sandboxID, errdefs.ErrNotFound)
}
