package cni

import "errors"

// NotUndoneError is the error of an Add that failed and could not be undone either: plugins may still hold something
// for the pod, and Del must be called again.
type NotUndoneError struct {
	// Add is why the pod was not joined, Undo why that could not be taken back.
	Add, Undo error
}

// Error gives both causes, one a line.
func (e *NotUndoneError) Error() string { return errors.Join(e.Add, e.Undo).Error() }

// Unwrap returns both causes.
func (e *NotUndoneError) Unwrap() []error { return []error{e.Add, e.Undo} }
