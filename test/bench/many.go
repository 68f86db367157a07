package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// stormSize is how many pods are brought up at once. Lists are measured with 1, podsSome and allPods pods.
const (
	stormSize = 24
	allPods   = 60
	podsSome  = 20
)

// crowd is the pods of one server.
type crowd struct {
	*criServer
	pods []*pod
	made int
}

// grow brings n pods up, as many at a time as there are workers, and returns how long it took.
func (c *crowd) grow(ctx context.Context, n, workers int) (time.Duration, error) {
	pods := make([]*pod, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	began := time.Now()
	for i := range n {
		name := fmt.Sprintf("crowd-%d", c.made+i)
		group.Go(func() (err error) {
			pods[i], err = c.up(ctx, name, noClock)
			return err
		})
	}
	err := group.Wait()
	took := time.Since(began)
	c.made += n
	for _, p := range pods {
		if p != nil {
			c.pods = append(c.pods, p)
		}
	}
	return took, err
}

// double gives each pod that has one container a second container.
func (c *crowd) double(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(4)
	for _, p := range c.pods {
		if len(p.containers) == 1 {
			group.Go(func() error { return c.addContainer(ctx, p, "second", noClock) })
		}
	}
	return group.Wait()
}

// shrink removes all pods but n.
func (c *crowd) shrink(ctx context.Context, n int) error {
	var group errgroup.Group
	group.SetLimit(8)
	for _, p := range c.pods[n:] {
		group.Go(func() error { return c.remove(ctx, p) })
	}
	c.pods = c.pods[:n]
	return group.Wait()
}

// measureMany brings up crowds of pods on each server, and measures what lists cost on the way.
func (b *bench) measureMany(ctx context.Context) (err error) {
	var crowds []*crowd
	for _, s := range b.servers {
		crowds = append(crowds, &crowd{criServer: s})
	}
	b.crowd = crowds[0]
	defer func() {
		var group errgroup.Group
		for _, c := range crowds {
			if c.name == nameCRIDockerd {
				continue // its pods are not measured again, and end with the rig
			}
			group.Go(func() error { return c.shrink(context.WithoutCancel(ctx), 0) })
		}
		err = errors.Join(err, group.Wait())
	}()
	if err := b.growAndList(ctx, crowds, 1); err != nil {
		return err
	}
	if err := b.storms(ctx, crowds, 4); err != nil {
		return err
	}
	if b.plan.moreWorkers {
		if err := b.growAndList(ctx, crowds, podsSome); err != nil {
			return err
		}
		if err := b.storms(ctx, crowds, 8); err != nil {
			return err
		}
	}
	if err := b.growAndList(ctx, crowds, allPods); err != nil {
		return err
	}
	b.judgeMany()
	if err := b.measureUsage(ctx); err != nil {
		return err
	}
	if err := b.measureEngineCalls(ctx); err != nil {
		return err
	}
	return b.measureExecsAtOnce(ctx, crowds)
}

func (b *bench) judgeMany() {
	b.result.compare(&b.result.Storms, nameCriadapter,
		goal{"24-pods-4-workers-to-cri-dockerd", stormRow(4), nameCRIDockerd, 0.5},
		goal{"24-pods-4-workers-to-containerd", stormRow(4), nameContainerd, 1.25})
	b.result.compare(&b.result.Storms, nameWithOCI,
		goal{"oci-24-pods-4-workers-to-containerd", stormRow(4), nameContainerd, 0.9})
	b.result.compare(b.result.Lists[len(b.result.Lists)-1].Table, nameCriadapter,
		goal{"relist-60-pods-to-containerd", rowRelist, nameContainerd, 1.0},
		goal{"relist-60-pods-to-cri-dockerd", rowRelist, nameCRIDockerd, 1.0 / 15},
		goal{"pod-status-to-containerd", rowPod, nameContainerd, 1.0},
		goal{"container-status-to-containerd", rowContainer, nameContainerd, 1.0},
		goal{"stats-120-containers-to-containerd", rowStats, nameContainerd, 0.1},
		goal{"stats-120-containers-to-cri-dockerd", rowStats, nameCRIDockerd, 0.002})
}

// growAndList leaves each crowd with n pods of two containers, and measures lists.
func (b *bench) growAndList(ctx context.Context, crowds []*crowd, n int) error {
	// The growth is not measured, so all crowds grow at once.
	group, growing := errgroup.WithContext(ctx)
	for _, c := range crowds {
		group.Go(func() error {
			if err := c.growTo(growing, n); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return b.measureLists(ctx, crowds, n)
}

// growTo leaves the crowd with n pods of two containers.
func (c *crowd) growTo(ctx context.Context, n int) error {
	if len(c.pods) > n {
		if err := c.shrink(ctx, n); err != nil {
			return err
		}
	}
	if _, err := c.grow(ctx, n-len(c.pods), 4); err != nil {
		return err
	}
	return c.double(ctx)
}

// storms brings up stormSize pods at once, the servers in turn.
func (b *bench) storms(ctx context.Context, crowds []*crowd, workers int) error {
	return turns(b.plan.storms, len(crowds), func(round, i int) error {
		c := crowds[i]
		before := len(c.pods)
		took, err := c.grow(ctx, stormSize, workers)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		b.result.Storms.add(stormRow(workers), c.name, took)
		if round == b.plan.storms-1 {
			return nil // these are kept
		}
		return c.shrink(ctx, before)
	})
}

func stormRow(workers int) string { return fmt.Sprintf("%d pods, %d workers", stormSize, workers) }
