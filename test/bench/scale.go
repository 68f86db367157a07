package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"

	procs "github.com/criadapter/criadapter/test/rig/usage"
)

// scaleStep has the times and the memory of servers on a node with many objects of one kind.
type scaleStep struct {
	// With says what the node has, such as "10000 dead containers".
	With  string `json:"with"`
	Table *table `json:"table"`
	// Memory is the resident memory of each server, in KiB.
	Memory map[string]int `json:"memoryKiB"`
}

// Rows of the tables of scale, beside the rows of lists and lives.
const (
	// rowStart is a restart of the server: from its start until it is ready.
	rowStart = "start of the server"
	// rowEngineList is the engine's own list of the objects that the server must learn of at its start.
	rowEngineList = "list of the engine"
)

// measureScale measures criadapter-oci and containerd with many sessions, then pods, dead containers and images.
func (b *bench) measureScale(ctx context.Context) error {
	var crowds []*crowd
	for _, s := range b.serversNamed(nameWithOCI, nameContainerd) {
		crowds = append(crowds, &crowd{criServer: s})
	}
	for _, measure := range []func(context.Context, []*crowd) error{
		b.measureSessions, b.measurePodsAtOnce, b.measureDead, b.measureManyImages,
	} {
		if err := measure(ctx, crowds); err != nil {
			return err
		}
	}
	return nil
}

// beginStep adds a step to the result. It restarts the servers, so that no memory of the previous step counts.
func (b *bench) beginStep(ctx context.Context, with string, crowds []*crowd) (*scaleStep, error) {
	fmt.Fprintf(os.Stderr, "bench: %s …\n", with)
	for _, c := range crowds {
		if _, err := c.restart(ctx); err != nil {
			return nil, fmt.Errorf("restart of %s: %w", c.name, err)
		}
	}
	step := &scaleStep{With: with, Table: &table{}, Memory: map[string]int{}}
	b.result.Scale = append(b.result.Scale, step)
	return step, nil
}

// time calls f on one server after the other, and adds the time of f divided by n to the row. So the row has the mean
// time of n operations, or with n = 1 the time of them all.
func (s *scaleStep) time(crowds []*crowd, row string, n int, f func(*crowd) error) error {
	for _, c := range crowds {
		took, err := timed(func() error { return f(c) })
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		s.Table.add(row, c.name, took/time.Duration(n))
	}
	return nil
}

// weigh adds the memory of each server.
func (s *scaleStep) weigh(crowds []*crowd) error {
	for _, c := range crowds {
		held, err := procs.MemoryOf(c.processes)
		if err != nil {
			return err
		}
		s.Memory[c.name] = held.RSS
	}
	return nil
}

// measurePodsAtOnce brings up and removes many pods, all at the same time.
func (b *bench) measurePodsAtOnce(ctx context.Context, crowds []*crowd) error {
	n := b.plan.podsAtOnce
	step, err := b.beginStep(ctx, fmt.Sprintf("%d pods at once", n), crowds)
	if err != nil {
		return err
	}
	if err := step.time(crowds, "all pods up", 1, func(c *crowd) error {
		_, err := c.grow(ctx, n, n)
		return err
	}); err != nil {
		return err
	}
	if err := step.weigh(crowds); err != nil {
		return err
	}
	return step.timeRemoval(ctx, crowds)
}

// timeRemoval removes all pods of each server.
func (s *scaleStep) timeRemoval(ctx context.Context, crowds []*crowd) error {
	return s.time(crowds, "all pods removed", 1, func(c *crowd) error { return c.shrink(ctx, 0) })
}

// measureStarts restarts each server, and compares criadapter's start with its engine's list of the same objects.
func (b *bench) measureStarts(
	ctx context.Context, step *scaleStep, crowds []*crowd, engineList func(context.Context, *client.Client) error,
) error {
	ours := crowds[0].name
	engine, err := client.New(client.WithHost(crowds[0].engineHost))
	if err != nil {
		return err
	}
	defer engine.Close()
	for range b.plan.restarts {
		listed, err := timed(func() error { return engineList(ctx, engine) })
		if err != nil {
			return err
		}
		step.Table.add(rowEngineList, ours, listed)
		for _, c := range crowds {
			took, err := c.restart(ctx)
			if err != nil {
				return fmt.Errorf("restart of %s: %w", c.name, err)
			}
			step.Table.add(rowStart, c.name, took)
		}
	}
	later := step.Table.cells[rowStart][ours].quantile(0.5) - step.Table.cells[rowEngineList][ours].quantile(0.5)
	b.result.add(step.goal("seconds-from-engine-list-to-start"), later.Seconds(), 2)
	return nil
}

// measureSomeLives takes a few pods of each server through their lives.
func (b *bench) measureSomeLives(ctx context.Context, step *scaleStep, crowds []*crowd) error {
	return turns(1+b.plan.restarts, len(crowds), func(round, i int) error {
		c := crowds[i]
		tell := func(call string, took time.Duration) {
			if round > 0 && (call == sumUp || call == sumDown) {
				step.Table.add(call, c.name, took)
			}
		}
		if err := c.cycle(ctx, fmt.Sprintf("life-%s-%d", step.goal("pod"), round), tell); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		return nil
	})
}

// goal is the name of a step's ratio.
func (s *scaleStep) goal(name string) string {
	return name + "-" + strings.ReplaceAll(s.With, " ", "-")
}

func (s *scaleStep) print(w io.Writer) {
	s.Table.print(w, "With "+s.With)
	for _, name := range slices.Sorted(maps.Keys(s.Memory)) {
		fmt.Fprintf(w, "memory of %s: %.1f MiB\n", name, float64(s.Memory[name])/1024)
	}
	fmt.Fprintln(w)
}
