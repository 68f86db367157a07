package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// tempo replaces pods like a Deployment rollout with maxUnavailable 25 % and maxSurge 0.
type tempo struct {
	pods  int // wanted
	most  int // at once, terminating ones included
	least int // Ready at any time
}

// newTempo lets a quarter of the pods be unavailable, as Deployments do by default, and at least one.
func newTempo(pods, most int) tempo {
	return tempo{pods: pods, most: most, least: pods - max(1, pods/4)}
}

// step returns how many pods to make now, and how many of the due pods to delete now.
func (p tempo) step(t tally, due int) (create, remove int) {
	alive := t.ready + t.waiting
	create = min(p.pods-alive, p.most-alive-t.going)
	remove = min(due, t.ready-p.least)
	return max(0, create), max(0, remove)
}

// demand returns how many pods are due to be replaced, and whether the demand is over.
type demand func(t tally) (due int, over bool)

// all is the demand of a rollout: every old pod is due. It is over when no old pod is left and all new ones are Ready.
func (p tempo) all(t tally) (due int, over bool) {
	return t.old, t.old == 0 && t.settled(p.pods) == nil
}

// steady demands perSecond pods a second. The demand begins at start and ends after duration. Pods that were not
// replaced in time stay due.
func steady(perSecond int, start time.Time, duration time.Duration, now func() time.Time) demand {
	return func(t tally) (int, bool) {
		elapsed := now().Sub(start)
		return int(elapsed.Seconds()*float64(perSecond)) - t.deleted, elapsed >= duration
	}
}

// refill demands nothing, and is over when all pods are Ready again.
func (p tempo) refill(t tally) (due int, over bool) { return 0, t.settled(p.pods) == nil }

// replace replaces pods at the tempo, the oldest first, until the demand is over.
func (c *crowd) replace(ctx context.Context, patience time.Duration, spec v1.PodSpec, p tempo, wanted demand) error {
	var failed error
	err := c.await(ctx, patience, func(t tally) error {
		due, over := wanted(t)
		if over {
			return nil
		}
		create, remove := p.step(t, due)
		if failed = c.removeOldest(ctx, remove); failed == nil {
			failed = c.create(ctx, create, spec)
		}
		if failed != nil {
			return nil // no more waiting
		}
		return fmt.Errorf("%d pods are due to be replaced, %d are Ready, %d are not yet, and %d still terminate", due,
			t.ready, t.waiting, t.going)
	})
	if failed != nil {
		return failed
	}
	return err
}
