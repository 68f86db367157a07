package main

import (
	"context"
	"fmt"
	"time"

	"github.com/criadapter/criadapter/internal/pace"
)

// clockStep sets the machine's clock by a difference, and ends a program afterwards. systemd starts the program again.
type clockStep struct{ by, end string }

// Each of clockSteps ends a program after the clock change. When the program starts again, it reads times from before
// the change.
var clockSteps = []clockStep{
	{"+1 hour", "systemctl kill --signal KILL criadapter"},
	{"-2 hours", "systemctl restart docker"},
	{"+25 hours", "systemctl restart kubelet-core"},
	{"-24 hours", "systemctl kill --signal KILL criadapter"},
}

// clock sets the machine's clock forward and back while pods come and go. After each step every pod must be as its
// manifest says, and crictl exec and crictl stats must work with a running container.
func (s *suite) clock(ctx context.Context) error {
	if err := s.startNode(ctx); err != nil {
		return err
	}
	for _, step := range clockSteps {
		began := time.Now()
		if err := s.setClock(ctx, step); err != nil {
			return fmt.Errorf("clock %s, then %s: %w", step.by, step.end, err)
		}
		fmt.Printf("ok   clock %s, then %s (%s)\n", step.by, step.end, time.Since(began).Round(time.Second))
	}
	return nil
}

func (s *suite) setClock(ctx context.Context, step clockStep) error {
	if err := s.startChurn(ctx); err != nil {
		return err
	}
	for _, line := range []string{"date --set '" + step.by + "'", step.end, "systemctl stop churn"} {
		if err := pace.Sleep(ctx, churnTime); err != nil {
			return err
		}
		if _, err := s.machine.Shell(ctx, line); err != nil {
			return err
		}
	}
	if err := s.awaitManifests(ctx); err != nil {
		return err
	}
	if err := s.audit(ctx); err != nil {
		return err
	}
	id, err := s.containerOf(ctx, "agent")
	if err != nil {
		return err
	}
	_, err = s.machine.Shell(ctx, "crictl exec --sync "+id+" true && crictl stats "+id)
	return err
}
