package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	procs "github.com/criadapter/criadapter/test/rig/usage"
)

// nodes has, by server, the memory of all processes that the server needs for its pods.
type nodes struct {
	// Pods is how many pods of one container there are.
	Pods    int                   `json:"pods"`
	Servers map[string]nodeMemory `json:"servers"`
}

// nodeMemory is the memory of a node with pods, in KiB.
type nodeMemory struct {
	// Daemons is the resident memory of the server and its engine. Pods is the proportional memory (PSS) of the shims
	// and the containers' processes.
	Daemons int `json:"daemonsKiB"`
	Pods    int `json:"podsKiB"`
	// Processes counts the shims and the containers' processes.
	Processes int `json:"processes"`
}

func (m nodeMemory) all() int { return m.Daemons + m.Pods }

// measureNodes measures the memory of each server's node in turn. The other servers have no pods meanwhile.
func (b *bench) measureNodes(ctx context.Context) error {
	b.result.Nodes = &nodes{Pods: b.plan.nodePods, Servers: map[string]nodeMemory{}}
	for _, s := range b.servers {
		m, err := s.measureNode(ctx, b.plan.nodePods)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.result.Nodes.Servers[s.name] = m
	}
	all := func(name string) float64 { return float64(b.result.Nodes.Servers[name].all()) }
	b.result.add("oci-node-memory-to-containerd", all(nameWithOCI)/all(nameContainerd), 1.1)
	return nil
}

// measureNode brings pods up, lets them rest, and measures.
func (s *criServer) measureNode(ctx context.Context, pods int) (m nodeMemory, err error) {
	c := &crowd{criServer: s}
	defer func() { err = errors.Join(err, c.shrink(context.WithoutCancel(ctx), 0)) }()
	if _, err := c.grow(ctx, pods, 4); err != nil {
		return m, err
	}
	time.Sleep(restTime)
	daemons, err := procs.MemoryOf(slices.Concat(s.processes, s.engine))
	if err != nil {
		return m, err
	}
	m.Daemons = daemons.RSS
	processes, err := processesOfPods(s.state)
	if err != nil {
		return m, err
	}
	if len(processes) < 2*pods { // a shim and a program
		return m, fmt.Errorf("%d pods have %d processes", pods, len(processes))
	}
	m.Processes = len(processes)
	m.Pods, err = procs.ProportionalMemory(processes)
	return m, err
}

// processesOfPods returns the shims of the containerd whose socket is below a directory, and their descendants.
func processesOfPods(dir string) ([]int, error) {
	parents, err := procs.Parents()
	if err != nil {
		return nil, err
	}
	var family []int
	for pid := range parents {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && isShimOf(line, dir) { // on an error, the process has just ended
			family = append(family, pid)
		}
	}
	for i := 0; i < len(family); i++ {
		for pid, parent := range parents {
			if parent == family[i] {
				family = append(family, pid)
			}
		}
	}
	return family, nil
}

// isShimOf says whether a command line starts a shim of the containerd whose socket is below dir.
func isShimOf(line []byte, dir string) bool {
	args := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
	at := slices.Index(args, "-address")
	return strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") && at > 0 && at+1 < len(args) &&
		strings.HasPrefix(args[at+1], dir+"/")
}

func (n *nodes) print(w io.Writer) {
	if n == nil {
		return
	}
	fmt.Fprintf(w,
		"A node with %d pods of one container\tMiB per pod\tserver and engine MiB\tshims and containers "+
			"MiB\tprocesses of pods\t\n", n.Pods)
	for _, name := range slices.Sorted(maps.Keys(n.Servers)) {
		m := n.Servers[name]
		fmt.Fprintf(w, "%s\t%.2f\t%.1f\t%.1f\t%d\t\n", name, float64(m.all())/1024/float64(n.Pods),
			float64(m.Daemons)/1024, float64(m.Pods)/1024, m.Processes)
	}
	fmt.Fprintln(w)
}
