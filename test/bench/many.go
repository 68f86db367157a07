package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stormSize is how many pods are brought up at once, and allPods how many there are in the end.
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

// double gives each pod that has one container a second one.
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
		group.Go(func() error { return c.down(ctx, p, noClock) })
	}
	c.pods = c.pods[:n]
	return group.Wait()
}

// measureMany brings up crowds of pods on each server, and measures what lists cost on the way.
func (b *bench) measureMany(ctx context.Context) error {
	var crowds []*crowd
	for _, s := range b.servers {
		crowds = append(crowds, &crowd{criServer: s})
	}
	b.crowd = crowds[0]
	for _, stage := range []func() error{
		func() error { return b.growTo(ctx, crowds, 1) },
		func() error { return b.measureLists(ctx, crowds, 1) },
		func() error { return b.storms(ctx, crowds, 4) },
		func() error { return b.growTo(ctx, crowds, podsSome) },
		func() error { return b.measureLists(ctx, crowds, podsSome) },
		func() error { return b.storms(ctx, crowds, 8) },
		func() error { return b.growTo(ctx, crowds, allPods) },
		func() error { return b.measureLists(ctx, crowds, allPods) },
		func() error { return b.measureUsage(ctx) },
	} {
		if err := stage(); err != nil {
			return err
		}
	}
	return nil
}

// growTo leaves each crowd with n pods of two containers.
func (b *bench) growTo(ctx context.Context, crowds []*crowd, n int) error {
	for _, c := range crowds {
		if len(c.pods) > n {
			if err := c.shrink(ctx, n); err != nil {
				return err
			}
		}
		if _, err := c.grow(ctx, n-len(c.pods), 4); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := c.double(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
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

// Rows of the table of lists.
const (
	rowRelist    = "relist"
	rowPod       = "PodSandboxStatus"
	rowContainer = "ContainerStatus"
	rowImages    = "ListImages"
	rowStats     = "ListContainerStats"
)

// measureLists times what the kubelet asks again and again.
func (b *bench) measureLists(ctx context.Context, crowds []*crowd, pods int) error {
	lists := &table{}
	b.result.Lists = append(b.result.Lists, listsResult{Pods: pods, Table: lists})
	for _, figure := range []struct {
		row   string
		times int
		ask   func(*crowd, context.Context) error
	}{
		{rowRelist, b.plan.relists, func(c *crowd, ctx context.Context) error { return c.relist(ctx, pods) }},
		{rowPod, b.plan.statuses, (*crowd).podStatus},
		{rowContainer, b.plan.statuses, (*crowd).containerStatus},
		{rowImages, b.plan.statuses, (*crowd).listImages},
		{rowStats, b.plan.stats, (*crowd).listStats},
	} {
		deadline := time.Now().Add(time.Duration(len(crowds)) * b.plan.slow)
		var without []*crowd // that do not have the RPC
		err := turns(figure.times, len(crowds), func(round, i int) error {
			if slices.Contains(without, crowds[i]) || round > 0 && time.Now().After(deadline) {
				return nil
			}
			began := time.Now()
			err := figure.ask(crowds[i], ctx)
			took := time.Since(began)
			if status.Code(err) == codes.Unimplemented {
				without = append(without, crowds[i])
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s of %s: %w", figure.row, crowds[i].name, err)
			}
			if round > 0 || figure.times == b.plan.stats { // the first one of many makes the caches warm
				lists.add(figure.row, crowds[i].name, took)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// relist is what the kubelet asks each second.
func (s *criServer) relist(ctx context.Context, pods int) error {
	sandboxes, err := s.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	containers, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return err
	}
	if len(sandboxes.GetItems()) != pods || len(containers.GetContainers()) != 2*pods {
		return fmt.Errorf("%d pods and %d containers are listed, want %d and %d", len(sandboxes.GetItems()), len(containers.GetContainers()), pods, 2*pods)
	}
	return nil
}

// waitRelist waits until relist succeeds, which it does once the server has found the pods.
func (s *criServer) waitRelist(ctx context.Context, pods int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.relist(ctx, pods)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollInterval):
		}
	}
}

func (c *crowd) podStatus(ctx context.Context) error {
	_, err := c.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: c.pods[0].id})
	return err
}

func (c *crowd) containerStatus(ctx context.Context) error {
	_, err := c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.pods[0].containers[0]})
	return err
}

func (c *crowd) listImages(ctx context.Context) error {
	_, err := c.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	return err
}

func (c *crowd) listStats(ctx context.Context) error {
	_, err := c.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	return err
}
