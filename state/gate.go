package state

import (
	"context"
	"time"
)

// inspectPatience bounds how long a relist or an event's refresh waits for one container. The inspects are made side by
// side, so that a few that hang delay the others by so much at most.
const inspectPatience = 10 * time.Second

// gate bounds the inspects that are under way at once. What follows an inspect is not bounded: an exit hook may wait
// for a disk. A nil gate lets everybody through.
type gate struct {
	slots chan struct{}
	// patience bounds one inspect, 0 for as long as its context lasts.
	patience time.Duration
	// needless, when not nil, is asked when there is a slot: whether the inspect was made by somebody else meanwhile.
	needless func() bool
}

// enter waits for a slot. leave gives it back and ends the returned context. ok is false when there is no need to go
// on, or ctx has ended.
func (g *gate) enter(ctx context.Context) (look context.Context, leave func(), ok bool) {
	if g == nil {
		return ctx, func() {}, true
	}
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx, nil, false
	}
	if g.needless != nil && g.needless() {
		<-g.slots
		return ctx, nil, false
	}
	look, cancel := ctx, context.CancelFunc(func() {})
	if g.patience > 0 {
		look, cancel = context.WithTimeout(ctx, g.patience)
	}
	return look, func() { cancel(); <-g.slots }, true
}
