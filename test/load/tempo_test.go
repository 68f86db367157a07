package main

import (
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// kubelet is a simulated node. up is the number of ticks until a new pod is Ready, and down the number until a deleted
// pod is gone. A tick is a tenth of a second.
type kubelet struct {
	tally
	ups, downs []int // ticks at which a start or a deletion is over
	up, down   int
	tick       int
}

// step lets a tenth of a second pass.
func (k *kubelet) step() {
	k.tick++
	for len(k.ups) > 0 && k.ups[0] <= k.tick {
		k.ups, k.waiting, k.ready = k.ups[1:], k.waiting-1, k.ready+1
	}
	for len(k.downs) > 0 && k.downs[0] <= k.tick {
		k.downs, k.going = k.downs[1:], k.going-1
	}
}

func (k *kubelet) do(create, remove int) {
	for range create {
		k.ups = append(k.ups, k.tick+k.up)
	}
	for range remove {
		k.downs = append(k.downs, k.tick+k.down)
	}
	k.waiting += create
	k.ready, k.going, k.deleted = k.ready-remove, k.going+remove, k.deleted+remove
	k.old = max(0, k.old-remove) // old pods go first
}

// run replaces pods until the demand is over, and returns the number of ticks.
func (k *kubelet) run(t *testing.T, p tempo, wanted func(*kubelet) demand) int {
	t.Helper()
	asks := wanted(k)
	for k.tick < 10_000 {
		due, over := asks(k.tally)
		if over {
			return k.tick
		}
		k.do(p.step(k.tally, due))
		testutil.Require(t, k.ready >= p.least && k.ready+k.waiting <= p.pods && k.ready+k.waiting+k.going <= p.most,
			"after %d ticks %+v, which %+v does not allow", k.tick, k.tally, p)
		k.step()
	}
	t.Fatalf("not over: %+v", k.tally)
	return 0
}

// clock is the time of the node.
func (k *kubelet) clock() time.Time { return time.Unix(0, 0).Add(time.Duration(k.tick) * look) }

// A rollout replaces each pod once, whatever the number of pods and the speed of the node.
func TestRollout(t *testing.T) {
	for _, pods := range []int{1, 4, 20, 100, usualPods} {
		for _, speed := range [][2]int{{30, 15}, {1, 1}, {100, 1}, {1, 100}, {100, 50}} {
			p := newTempo(pods, usualPods)
			k := &kubelet{tally: tally{ready: pods, old: pods}, up: speed[0], down: speed[1]}
			k.run(t, p, func(*kubelet) demand { return p.all })
			testutil.Assert(t, k.deleted == pods && k.old == 0 && k.settled(pods) == nil,
				"%d pods, up and down in %v ticks: %+v in the end", pods, speed, k.tally)
		}
	}
}

// A fast node replaces as many pods as are asked for. A slow node replaces fewer, within the limits.
func TestChurn(t *testing.T) {
	p := newTempo(100, usualPods)
	churn := func(k *kubelet) demand { return steady(5, k.clock(), time.Minute, k.clock) }
	fast := &kubelet{tally: tally{ready: 100, old: 100}, up: 30, down: 15}
	took := fast.run(t, p, churn)
	testutil.Assert(t, took == 600 && fast.deleted >= 295 && fast.deleted <= 300,
		"fast: %d replaced in %d ticks, want 5 a second for a minute", fast.deleted, took)
	slow := &kubelet{tally: tally{ready: 100, old: 100}, up: 100, down: 50}
	if took := slow.run(t, p, churn); took != 600 || slow.deleted < 60 || slow.deleted > 200 {
		t.Errorf("slow: %d replaced in %d ticks, want fewer than were asked for", slow.deleted, took)
	}
	deleted := slow.deleted
	slow.run(t, p, func(*kubelet) demand { return p.refill })
	testutil.Assert(t, slow.deleted == deleted && slow.settled(100) == nil,
		"in the end %+v, want 100 Ready and none replaced after the time", slow.tally)
}
