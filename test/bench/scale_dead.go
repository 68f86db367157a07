package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// deadPods is how many pods the dead containers are spread over. Each pod has a running container, too.
	deadPods = 100
	// mostFiltered is the goal of filtered lists, in milliseconds.
	mostFiltered = 10
)

// measureDead fills a node with containers that have ended, and measures it at each number of plan.dead.
func (b *bench) measureDead(ctx context.Context, crowds []*crowd) error {
	for _, c := range crowds {
		if _, err := c.grow(ctx, deadPods, 4); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	var step *scaleStep
	before := 0
	for _, n := range b.plan.dead {
		var err error
		if step, err = b.beginStep(ctx, fmt.Sprintf("%d dead containers", n), crowds); err != nil {
			return err
		}
		if err := step.time(crowds, "mean of creating, starting and ending", n-before, func(c *crowd) error {
			return c.endContainers(ctx, before/deadPods, n/deadPods)
		}); err != nil {
			return err
		}
		if err := b.measureWithDead(ctx, step, crowds, n); err != nil {
			return err
		}
		before = n
	}
	return step.timeRemoval(ctx, crowds)
}

// endContainers gives each pod the dead containers with the numbers first to last-1, and waits for their ends.
func (c *crowd) endContainers(ctx context.Context, first, last int) error {
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, p := range c.pods {
		group.Go(func() error {
			for i := first; i < last; i++ {
				config := containerConfig(deadName(i), c.imageRef)
				config.Command = []string{"true"}
				if err := c.startContainer(creating, p, config, noClock); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return waitFor(ctx, func() error {
		return listWith(stateFilter(runtimeapi.ContainerState_CONTAINER_EXITED), deadPods*last)(c, ctx)
	})
}

func deadName(i int) string { return fmt.Sprintf("dead-%d", i) }

func stateFilter(state runtimeapi.ContainerState) *runtimeapi.ContainerFilter {
	return &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: state}}
}

// measureWithDead measures lists, statuses, lives and starts with n dead containers.
func (b *bench) measureWithDead(ctx context.Context, step *scaleStep, crowds []*crowd, n int) error {
	const (
		rowAll     = "ListContainers"
		rowOfPod   = "ListContainers of a pod"
		rowByLabel = "ListContainers by a label"
		rowRunning = "ListContainers that run"
	)
	byLabel := &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.container.name": deadName(0)},
	}
	ofPod := func(c *crowd, ctx context.Context) error {
		return listWith(&runtimeapi.ContainerFilter{PodSandboxId: c.pods[0].id}, n/deadPods+1)(c, ctx)
	}
	for _, q := range []question{
		{rowAll, b.plan.stats, listWith(nil, n+deadPods)},
		{rowOfPod, b.plan.stats, ofPod},
		{rowByLabel, b.plan.stats, listWith(byLabel, deadPods)},
		{rowRunning, b.plan.stats, listWith(stateFilter(runtimeapi.ContainerState_CONTAINER_RUNNING), deadPods)},
		{rowContainer, b.plan.stats, (*crowd).lastStatus},
		{rowStats, b.plan.stats, (*crowd).listStats},
	} {
		if err := b.ask(ctx, step.Table, crowds, q); err != nil {
			return err
		}
	}
	if err := step.weigh(crowds); err != nil {
		return err
	}
	ours := step.Table.cells
	for _, row := range []string{rowOfPod, rowByLabel, rowRunning} {
		name := step.goal("ms-" + strings.ReplaceAll(row, " ", "-"))
		b.result.add(name, milliseconds(ours[row][nameWithOCI].quantile(0.5)), mostFiltered)
	}
	b.result.compare(step.Table, nameWithOCI, goal{step.goal("list-all-to-containerd"), rowAll, nameContainerd, 1})
	if err := b.measureSomeLives(ctx, step, crowds); err != nil {
		return err
	}
	return b.measureStarts(ctx, step, crowds, func(ctx context.Context, engine *client.Client) error {
		_, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true})
		return err
	})
}

// lastStatus asks for the status of the newest container.
func (c *crowd) lastStatus(ctx context.Context) error {
	all := c.pods[0].containers
	_, err := c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: all[len(all)-1]})
	return err
}

// listWith returns a question for containers. The question fails unless the answer has want containers.
func listWith(filter *runtimeapi.ContainerFilter, want int) func(*crowd, context.Context) error {
	return func(c *crowd, ctx context.Context) error {
		answer, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
		if err == nil && len(answer.GetContainers()) != want {
			err = fmt.Errorf("%d containers are listed, want %d", len(answer.GetContainers()), want)
		}
		return err
	}
}
