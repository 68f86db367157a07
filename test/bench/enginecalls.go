package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/criadapter/criadapter/test/rig/enginecalls"
)

// engineCalls counts criadapter's calls of the engine with allPods pods.
type engineCalls struct {
	// Start is the number of engine calls of criadapter's start. Ready is the time in seconds from the engine's first
	// list of containers until criadapter listed all pods. Relist counts the engine calls of relistsCounted relists
	// with statuses, by method and path. Stats counts the engine calls of relistsCounted ListContainerStats in the same
	// way.
	Start  int            `json:"start"`
	Ready  float64        `json:"ready"`
	Relist map[string]int `json:"relist"`
	Stats  map[string]int `json:"stats"`
}

func (c *engineCalls) print(w io.Writer) {
	if c == nil {
		return
	}
	fmt.Fprintf(w,
		"A start with %d pods of two containers took %d engine calls. criadapter listed all pods %.2f s after the "+
			"engine had listed them. Engine calls of %d relists with statuses: %d %v, of as many "+
			"ListContainerStats: %d %v.\n\n",
		allPods, c.Start, c.Ready, relistsCounted, sum(c.Relist), c.Relist, sum(c.Stats), c.Stats)
}

// measureEngineCalls restarts criadapter with a counting proxy before its engine. It counts the engine calls of relists
// with statuses, and of ListContainerStats. The restarted server must know all pods. At the end, criadapter is
// restarted without the proxy.
func (b *bench) measureEngineCalls(ctx context.Context) (err error) {
	engine, err := os.Readlink(b.engineLink)
	if err != nil {
		return err
	}
	p, err := enginecalls.Start(b.engineLink+".proxy", engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := b.restartBehind(ctx, b.engineLink+".proxy"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.restartBehind(context.WithoutCancel(ctx), engine)) }()
	ready := time.Now()
	started, listed := p.Take()
	s, calls := b.servers[0], &engineCalls{Start: len(started), Ready: ready.Sub(listed).Seconds()}
	b.result.Calls = calls
	b.result.add("ready-seconds-after-the-engines-list", calls.Ready, 1)
	for range relistsCounted {
		if err := errors.Join(s.relist(ctx, allPods), b.crowd.podStatus(ctx),
			b.crowd.containerStatus(ctx)); err != nil {
			return err
		}
	}
	calls.Relist = byName(p)
	for range relistsCounted {
		if err := b.crowd.listStats(ctx); err != nil {
			return err
		}
	}
	calls.Stats = byName(p)
	b.result.add("engine-calls-in-60-relists", float64(sum(calls.Relist)), 0)
	b.result.add("engine-calls-in-60-container-stats", float64(sum(calls.Stats)), 0)
	return nil
}

// restartBehind restarts criadapter with another socket of the engine, and waits until it knows all pods.
func (b *bench) restartBehind(ctx context.Context, engine string) error {
	if err := b.adapter.Stop(ctx); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(b.engineLink), os.Symlink(engine, b.engineLink)); err != nil {
		return err
	}
	if err := b.adapter.Start(ctx); err != nil {
		return err
	}
	s := b.servers[0]
	s.processes = []int{b.adapter.PID()}
	return s.waitRelist(ctx, allPods)
}

// byName counts the calls since the last Take, by method and path.
func byName(p *enginecalls.Proxy) map[string]int {
	count := map[string]int{}
	calls, _ := p.Take()
	for _, call := range calls {
		count[call]++
	}
	return count
}
