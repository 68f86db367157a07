package main

import (
	"context"
	"time"

	"github.com/criadapter/criadapter/internal/pace"
)

// The names of the phases.
const (
	phaseUp       = "up"
	phaseRest     = "rest"
	phaseRestarts = "restarts"
	phaseChurn    = "churn"
	phaseGone     = "gone"
	phaseProbes   = "probes"
)

// settle is the pause before pods at rest are measured. The kubelet syncs each pod once more in this time.
const settle = 5 * time.Second

// phase is one measured change of a node.
type phase struct {
	name string
	// pods is the number of Ready pods with which it begins, negative for any number.
	pods int
	run  func(context.Context, *measured) error
}

// phases returns the phases in their order. The probes come last and have their own pods, because a pod's probes cannot
// be removed and would go on in later phases.
func (n *node) phases() []phase {
	return []phase{
		{phaseUp, 0, n.bringUp},
		{phaseRest, n.opts.pods, n.rest},
		{phaseRestarts, n.opts.pods, n.restarts},
		{phaseChurn, n.opts.pods, n.churn},
		{phaseGone, -1, n.deleteAll},
		{phaseProbes, 0, n.probes},
	}
}

// attempt runs a phase. The figures of a phase that cannot begin or does not finish say why. An error ends the run.
func (n *node) attempt(ctx context.Context, p phase) (measured, error) {
	var m measured
	var err error
	if p.pods >= 0 {
		err = n.crowd.await(ctx, calm, func(t tally) error { return t.settled(p.pods) })
	}
	if err == nil {
		n.crowd.forget()
		err = p.run(ctx, &m)
	}
	if ctx.Err() != nil {
		return m, ctx.Err()
	}
	if err != nil {
		m.Unfinished = err.Error()
	}
	return m, nil
}

// observe measures the CPU, memory and time of f.
func (n *node) observe(ctx context.Context, m *measured, f func() error) error {
	before, err := n.parts.cpu()
	if err != nil {
		return err
	}
	called, err := n.calls(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := f(); err != nil {
		return err
	}
	m.Seconds = time.Since(start).Seconds()
	after, err := n.parts.cpu()
	if err != nil {
		return err
	}
	m.CPU = after.minus(before)
	if m.Calls, err = n.calls(ctx); err != nil {
		return err
	}
	m.Calls -= called
	m.Memory, m.Shims, err = n.parts.memory()
	return err
}

// calls counts the kubelet's calls so far. It returns 0 for a server without metrics.
func (n *node) calls(ctx context.Context) (sum int, err error) {
	byMethod, err := n.Calls(ctx)
	for _, calls := range byMethod {
		sum += calls
	}
	return sum, err
}

// bringUp brings all pods up.
func (n *node) bringUp(ctx context.Context, m *measured) error {
	err := n.observe(ctx, m, func() error { return n.fill(ctx, n.opts.pods, n.plain) })
	m.Ready = n.crowd.upTimes()
	return err
}

// rest leaves the pods alone for a while.
func (n *node) rest(ctx context.Context, m *measured) error {
	if err := pace.Sleep(ctx, settle); err != nil {
		return err
	}
	return n.observe(ctx, m, func() error { return pace.Sleep(ctx, n.opts.rest) })
}

// restarts replaces all pods, as a rollout does.
func (n *node) restarts(ctx context.Context, m *measured) error {
	p := newTempo(n.opts.pods, n.opts.maxPods())
	err := n.observe(ctx, m, func() error { return n.crowd.replace(ctx, patience, n.plain, p, p.all) })
	m.Ready, m.Gone = n.crowd.upTimes(), n.crowd.goneTimes()
	return err
}

// churn replaces pods every second, for a while.
func (n *node) churn(ctx context.Context, m *measured) error {
	p := newTempo(n.opts.pods, n.opts.maxPods())
	err := n.observe(ctx, m, func() error {
		wanted := steady(n.opts.churn, time.Now(), n.opts.churned, time.Now)
		if err := n.crowd.replace(ctx, n.opts.churned+patience, n.plain, p, wanted); err != nil {
			return err
		}
		m.Reached = float64(n.crowd.upTimes().N) / n.opts.churned.Seconds()
		return n.crowd.replace(ctx, patience, n.plain, p, p.refill)
	})
	m.Ready, m.Gone = n.crowd.upTimes(), n.crowd.goneTimes()
	return err
}

// deleteAll deletes all pods, also the pods that an unfinished phase has left.
func (n *node) deleteAll(ctx context.Context, m *measured) error {
	before := n.crowd.tally()
	err := n.observe(ctx, m, func() error { return n.empty(ctx) })
	m.Gone = n.crowd.goneTimes()
	if err != nil {
		return err
	}
	return before.settled(n.opts.pods)
}
