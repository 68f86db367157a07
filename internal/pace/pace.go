// Package pace spaces out background work that keeps a disk busy, such as counting the files of a layer.
package pace

import "time"

const (
	// restFactor is how many times longer than the work its pause is, as far as Pace.Longest allows.
	restFactor = 50
	// minRestFactor is how many times longer than the work its pause is in any case.
	minRestFactor = 3
)

// Pace bounds the pauses between two runs of the same work.
type Pace struct {
	Shortest, Longest time.Duration
}

// After returns the pause after work that took that long: 50 times as long, between Shortest and Longest. It exceeds
// Longest where that is less than three times the work, so that the work takes a quarter of the time at most.
func (p Pace) After(took time.Duration) time.Duration {
	return max(p.Shortest, min(restFactor*took, p.Longest), minRestFactor*took)
}
