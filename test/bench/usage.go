package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	procs "github.com/criadapter/criadapter/test/rig/usage"
)

// usage is the memory of a server at rest and the CPU time of relists, with allPods pods.
type usage struct {
	Server procs.Memory `json:"server"`
	// ServerCPU and EngineCPU are the CPU times of the server and its engine for relistsCounted relists.
	ServerCPU time.Duration `json:"serverCPU"`
	EngineCPU time.Duration `json:"engineCPU"`
}

// relistsCounted is the number of relists whose CPU time and engine calls are counted.
const relistsCounted = 60

// restTime is a pause in which the servers free the garbage and the idle connections of the set-up.
const restTime = 3 * time.Second

// measureUsage measures memory at rest, then CPU time of relists.
func (b *bench) measureUsage(ctx context.Context) error {
	b.result.Usage = map[string]usage{}
	time.Sleep(restTime)
	for _, s := range b.servers {
		held, err := procs.MemoryOf(s.processes)
		if err != nil {
			return err
		}
		b.result.Usage[s.name] = usage{Server: held}
	}
	ours, theirs := b.result.Usage[nameCriadapter].Server.RSS, b.result.Usage[nameCRIDockerd].Server.RSS
	b.result.add("rss-60-pods-to-cri-dockerd", float64(ours)/float64(theirs), 0.5)
	const blocks = 4
	return turns(blocks, len(b.servers), func(_, i int) error {
		s := b.servers[i]
		used := b.result.Usage[s.name]
		serverCPU, engineCPU, err := s.cpuOf(func() error {
			for range relistsCounted / blocks {
				if err := s.relist(ctx, allPods); err != nil {
					return err
				}
			}
			return nil
		})
		used.ServerCPU += serverCPU
		used.EngineCPU += engineCPU
		b.result.Usage[s.name] = used
		return err
	})
}

func printUsage(w io.Writer, all map[string]usage) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "With %d pods\tRSS MiB\tRssAnon MiB\tCPU ms server\tCPU ms engine\t (%d relists)\n", allPods,
		relistsCounted)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		used := all[name]
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t\n", name, float64(used.Server.RSS)/1024,
			float64(used.Server.RSSAnon)/1024,
			milliseconds(used.ServerCPU), milliseconds(used.EngineCPU))
	}
	fmt.Fprintln(w)
}

// cpuOf returns the CPU time that a server and its engine use while f runs.
func (s *criServer) cpuOf(f func() error) (server, engine time.Duration, err error) {
	serverBefore, err := procs.CPUTime(s.processes)
	if err != nil {
		return 0, 0, err
	}
	engineBefore, err := procs.CPUTime(s.engine)
	if err != nil {
		return 0, 0, err
	}
	if err := f(); err != nil {
		return 0, 0, err
	}
	serverAfter, err := procs.CPUTime(s.processes)
	if err != nil {
		return 0, 0, err
	}
	engineAfter, err := procs.CPUTime(s.engine)
	return serverAfter - serverBefore, engineAfter - engineBefore, err
}
