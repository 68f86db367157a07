package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pace"
	procs "github.com/criadapter/criadapter/test/rig/usage"
)

// rest is the cost of pods that run and do not change. A client sends the requests of a kubelet: lists each second,
// stats every tenth second.
type rest struct {
	Pods int `json:"pods"`
	// Quiet has the pods that write nothing. Lines has the same pods, each with two lines a second.
	Quiet map[string]restCost `json:"quiet"`
	Lines map[string]restCost `json:"lines"`
}

// restCost is the CPU time of a server and its engine, in seconds a minute, and the server's context switches a minute.
type restCost struct {
	Server   float64 `json:"server"`
	Engine   float64 `json:"engine"`
	Switches float64 `json:"switches"`
}

// measureRest lets the pods of each server rest, first without lines, then with lines. The other servers have no pods
// meanwhile.
func (b *bench) measureRest(ctx context.Context) error {
	b.result.Rest = &rest{Pods: b.plan.restPods, Quiet: map[string]restCost{}, Lines: map[string]restCost{}}
	for _, s := range b.serversNamed(nameWithOCI, nameContainerd) {
		if err := s.measureRest(ctx, b.result.Rest); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	quiet, lines := b.result.Rest.Quiet[nameWithOCI], b.result.Rest.Lines[nameWithOCI]
	perHundred := 100 / float64(b.plan.restPods)
	b.result.add("rest-cpu-100-quiet-pods", quiet.Server*perHundred, 0.3)
	b.result.add("rest-cpu-100-pods-with-lines", lines.Server*perHundred, 1.5)
	return nil
}

// measureRest brings pods up, measures, gives each a container that writes lines, and measures again.
func (s *criServer) measureRest(ctx context.Context, into *rest) (err error) {
	c := &crowd{criServer: s}
	defer func() { err = errors.Join(err, c.shrink(context.WithoutCancel(ctx), 0)) }()
	if _, err := c.grow(ctx, into.Pods, 4); err != nil {
		return err
	}
	if into.Quiet[s.name], err = c.restCost(ctx); err != nil {
		return err
	}
	if err := c.write(ctx); err != nil {
		return err
	}
	into.Lines[s.name], err = c.restCost(ctx)
	return err
}

// write gives each pod a container that writes two lines a second.
func (c *crowd) write(ctx context.Context) error {
	pulled, err := c.images.PullImage(ctx, &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: c.bench.env.Image("test/hello:latest")},
	})
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(4)
	for _, p := range c.pods {
		config := containerConfig("writer", pulled.GetImageRef())
		config.Command = nil // the image's program writes
		group.Go(func() error { return c.startContainer(ctx, p, config, noClock) })
	}
	return group.Wait()
}

// restCost waits for restTime after the last change, and then measures for plan.rest.
func (c *crowd) restCost(ctx context.Context) (cost restCost, err error) {
	if err := pace.Sleep(ctx, restTime); err != nil {
		return cost, err
	}
	before, err := procs.Switches(c.processes)
	if err != nil {
		return cost, err
	}
	server, engine, err := c.cpuOf(func() error { return c.askFor(ctx, c.bench.plan.rest) })
	if err != nil {
		return cost, err
	}
	after, err := procs.Switches(c.processes)
	minute := float64(time.Minute) / float64(c.bench.plan.rest)
	return restCost{
		Server: server.Seconds() * minute, Engine: engine.Seconds() * minute, Switches: float64(after-before) * minute,
	}, err
}

// askFor sends the requests of a kubelet for the time d.
func (c *crowd) askFor(ctx context.Context, d time.Duration) error {
	for second := range int(d / time.Second) {
		if err := pace.Sleep(ctx, time.Second); err != nil {
			return err
		}
		if _, err := c.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{}); err != nil {
			return err
		}
		if _, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{}); err != nil {
			return err
		}
		if second%10 == 0 {
			if err := c.listStats(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rest) print(w io.Writer) {
	if r == nil {
		return
	}
	fmt.Fprintf(w, "A minute of %d pods at rest\tCPU s server\tengine\tswitches of the server\t\n", r.Pods)
	for _, name := range []string{nameWithOCI, nameContainerd} {
		for _, row := range []struct {
			what string
			cost restCost
		}{{"quiet", r.Quiet[name]}, {"two lines a second each", r.Lines[name]}} {
			fmt.Fprintf(w, "%s, %s\t%.2f\t%.2f\t%.0f\t\n",
				name, row.what, row.cost.Server, row.cost.Engine, row.cost.Switches)
		}
	}
	fmt.Fprintln(w)
}
