package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pace"
)

// Rows of the table of lists.
const (
	rowRelist    = "relist"
	rowPod       = "PodSandboxStatus"
	rowContainer = "ContainerStatus"
	rowImages    = "ListImages"
	rowStats     = "ListContainerStats"
)

// question is a call that the kubelet repeats all the time.
type question struct {
	row   string
	times int
	ask   func(*crowd, context.Context) error
}

// measureLists times the calls that the kubelet repeats all the time.
func (b *bench) measureLists(ctx context.Context, crowds []*crowd, pods int) error {
	lists := &table{}
	b.result.Lists = append(b.result.Lists, listsResult{Pods: pods, Table: lists})
	for _, q := range []question{
		{rowRelist, b.plan.relists, func(c *crowd, ctx context.Context) error { return c.relist(ctx, pods) }},
		{rowPod, b.plan.statuses, (*crowd).podStatus},
		{rowContainer, b.plan.statuses, (*crowd).containerStatus},
		{rowImages, b.plan.statuses, (*crowd).listImages},
		{rowStats, b.plan.stats, (*crowd).listStats},
	} {
		if err := b.ask(ctx, lists, crowds, q); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a question to all servers in turn. The first answers warm the caches. ask leaves out a server whose answers
// took plan.slow together, or that lacks the RPC. A first answer counts only if it is the server's only one.
func (b *bench) ask(ctx context.Context, lists *table, crowds []*crowd, q question) error {
	spent := make([]time.Duration, len(crowds))
	return turns(1+q.times, len(crowds), func(round, i int) error {
		if spent[i] >= b.plan.slow {
			return nil
		}
		took, err := timed(func() error { return q.ask(crowds[i], ctx) })
		spent[i] += took
		if status.Code(err) == codes.Unimplemented {
			spent[i] = b.plan.slow
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", q.row, crowds[i].name, err)
		}
		if round > 0 || spent[i] >= b.plan.slow {
			lists.add(q.row, crowds[i].name, took)
		}
		return nil
	})
}

// timed returns how long f took.
func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// relist sends the two list requests that a kubelet sends each second, and checks the number of pods and containers.
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
		return fmt.Errorf("%d pods and %d containers are listed, want %d and %d", len(sandboxes.GetItems()),
			len(containers.GetContainers()), pods, 2*pods)
	}
	return nil
}

// waitRelist waits until the server lists all pods.
func (s *criServer) waitRelist(ctx context.Context, pods int) error {
	return waitFor(ctx, func() error { return s.relist(ctx, pods) })
}

// waitFor repeats a check until it passes, at most for startTimeout. It returns the error of the last check.
func waitFor(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if pace.Sleep(ctx, pollInterval) != nil {
			return err
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
