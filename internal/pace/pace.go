// Package pace spaces out background work that keeps a disk busy, such as counting the files of a layer.
package pace

import (
	"context"
	"time"
)

const (
	// restFactor is the length of the pause as a multiple of the work, within Pace.Longest.
	restFactor = 50
	// minRestFactor is the least length of the pause as a multiple of the work, even beyond Pace.Longest.
	minRestFactor = 3
)

// Pace bounds the pauses between two runs of the same work.
type Pace struct {
	Shortest, Longest time.Duration
}

// After returns the pause that follows work of the duration took. The pause is 50 times as long as the work, between
// Shortest and Longest. It is always at least three times as long, even beyond Longest. So the work takes up at most a
// quarter of the time.
func (p Pace) After(took time.Duration) time.Duration {
	return max(p.Shortest, min(restFactor*took, p.Longest), minRestFactor*took)
}

// Sleep waits for d and returns nil. If ctx ends first, Sleep returns ctx's error at once.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
