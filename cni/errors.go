package cni

import "errors"

// NotUndoneError is the error of an Add that failed and could not be undone either: plugins may still hold something
// for the pod, and Del must be called again.
type NotUndoneError struct {
	// Add is the error of the ADD. Undo is the error of the DEL that should have undone it.
	Add, Undo error
}

// Error returns both causes, one per line.
func (e *NotUndoneError) Error() string { return errors.Join(e.Add, e.Undo).Error() }

// Unwrap returns both causes.
func (e *NotUndoneError) Unwrap() []error { return []error{e.Add, e.Undo} }
