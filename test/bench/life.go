package main

import (
	"context"
	"fmt"
	"time"
)

// liver takes a pod through its life.
type liver interface {
	cycle(ctx context.Context, name string, tell clock) error
}

// measureLives takes one pod after the other through its life, on each server and by hand.
func (b *bench) measureLives(ctx context.Context) error {
	ordinary, err := b.newRaw(nameRawOrdinary, false)
	if err != nil {
		return err
	}
	defer ordinary.engine.Close()
	best, err := b.newRaw(nameRawBest, true)
	if err != nil {
		return err
	}
	defer best.engine.Close()
	var names []string
	var livers []liver
	for _, s := range b.servers {
		names, livers = append(names, s.name), append(livers, s)
	}
	names, livers = append(names, nameRawBest, nameRawOrdinary), append(livers, best, ordinary)
	// The first life on a server loads the sandbox image and makes the bridge. The raw lives use criadapter's bridge.
	for i, l := range livers {
		if err := l.cycle(ctx, fmt.Sprintf("first-%d", i), noClock); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	if err := turns(b.plan.cycles, len(livers), func(round, i int) error {
		tell := func(call string, took time.Duration) { b.result.Lives.add(call, names[i], took) }
		if err := livers[i].cycle(ctx, fmt.Sprintf("life-%d-%d", i, round), tell); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		return nil
	}); err != nil {
		return err
	}
	b.result.compare(&b.result.Lives, nameCriadapter,
		goal{"run-to-best-raw", callRun, nameRawBest, 1.10},
		goal{"run-to-cri-dockerd", callRun, nameCRIDockerd, 0.65},
		goal{"run-to-containerd", callRun, nameContainerd, 1.2},
		goal{"pod-up-to-cri-dockerd", sumUp, nameCRIDockerd, 0.75},
		goal{"pod-up-to-containerd", sumUp, nameContainerd, 1.2})
	b.result.compare(&b.result.Lives, nameWithOCI,
		goal{"oci-run-to-containerd", callRun, nameContainerd, 0.5},
		goal{"oci-pod-up-to-containerd", sumUp, nameContainerd, 0.9})
	return nil
}
