package state

import (
	"context"
	"time"
)

// inspectPatience bounds one inspect of a relist or of an event. Inspects run concurrently, so inspects that hang delay
// other inspects by this time at most.
const inspectPatience = 10 * time.Second

// gate bounds the number of concurrent inspects, and each by inspectPatience. It does not bound the exit hook after an
// inspect, which may wait for a disk. A nil gate bounds nothing.
type gate struct {
	slots chan struct{}
	// needless is called when a slot is free. It reports whether another caller has made the inspect meanwhile. It may
	// be nil.
	needless func() bool
}

// enter waits for a slot. leave frees it and cancels the returned context. ok is false if the inspect is needless or
// ctx has ended.
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
	look, cancel := context.WithTimeout(ctx, inspectPatience)
	return look, func() { cancel(); <-g.slots }, true
}
