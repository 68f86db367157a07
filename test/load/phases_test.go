package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The figures of an unfinished phase have the reason. The run goes on, unless its context ends.
func TestAttempt(t *testing.T) {
	now := time.Now()
	n := &node{crowd: emptyCrowd()}
	n.crowd.see(stamped("a", now, now), false, now)
	ran := false
	stuck := phase{phaseUp, 1, func(context.Context, *measured) error {
		ran = n.crowd.tally().old == 1
		return errors.New("stuck")
	}}
	if m, err := n.attempt(t.Context(), stuck); err != nil || m.Unfinished != "stuck" || !ran {
		t.Errorf("a stuck phase: %+v, %v, ran after the others were forgotten: %t", m, err, ran)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := phase{phaseGone, -1, func(ctx context.Context, m *measured) error { cancel(); return ctx.Err() }}
	_, err := n.attempt(ctx, ended)
	testutil.Assert(t, errors.Is(err, context.Canceled), "when the run ends: %v", err)
	ran = false
	_, err = n.attempt(ctx, phase{phaseRest, 2, stuck.run})
	testutil.Assert(t, errors.Is(err, context.Canceled) && !ran, "without its pods: %v, ran: %t", err, ran)
}
