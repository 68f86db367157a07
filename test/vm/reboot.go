package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// reboot reboots a node with pods of all restart policies: each must be as its manifest says, and nothing from before
// the reboot may be left.
func (s *suite) reboot(ctx context.Context) error {
	if err := errors.Join(s.startNode(ctx), s.addManifests(ctx)); err != nil {
		return err
	}
	began := time.Now()
	if err := s.awaitPods(ctx, phases(func(m manifest) v1.PodPhase { return m.first })); err != nil {
		return err
	}
	if err := s.audit(ctx); err != nil {
		return err
	}
	fmt.Printf("pods are up after %s, rebooting …\n", time.Since(began).Round(time.Second))
	began = time.Now()
	if err := s.machine.Reboot(ctx); err != nil {
		return err
	}
	fmt.Printf("booted after %s\n", time.Since(began).Round(time.Second))
	began = time.Now()
	if err := s.awaitPods(ctx, phases(func(m manifest) v1.PodPhase { return m.booted })); err != nil {
		return err
	}
	if err := s.audit(ctx); err != nil {
		return err
	}
	fmt.Printf("ok   reboot: pods are as their manifests say, %s after the boot\n",
		time.Since(began).Round(time.Second))
	return nil
}
