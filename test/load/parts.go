package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/cluster/realkubelet"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/rig/usage"
)

// The measured parts of a node.
const (
	partServer = "server"
	partEngine = "engine"
	// partShims has the memory of the shims alone. Its CPU time counts all processes that server and engine start
	// outside of pods' cgroups, ended ones included. These processes are shims, the OCI runtime and network plugins.
	partShims   = "shims"
	partKubelet = "kubelet"
	// partPods is everything in pods' cgroups, which includes exec commands and the OCI runtime's last steps.
	partPods = "pods"
)

// partNames are in the order of the output.
func partNames() []string { return []string{partServer, partEngine, partShims, partKubelet, partPods} }

// parts groups the processes of a node. On a node of containerd, containerd counts as the server, and there is no
// engine.
type parts struct {
	processes map[string][]int // server, engine and kubelet
	// started is the cgroup of the server, the engine and their children; pods is the parent of all pods' cgroups.
	started, pods cpuGroup
}

// findParts finds the processes, and puts server and engine into a control group of their own, before there is a pod.
func findParts(cluster *single.Cluster, env rigenv.Env) (*parts, error) {
	p := &parts{processes: map[string][]int{partServer: {cluster.Server.PID}, partKubelet: {cluster.Kubelet().PID()}}}
	if cluster.Server.Name != single.Containerd {
		engine, err := usage.EngineAt(env.DockerHost)
		if err != nil {
			return nil, err
		}
		p.processes[partEngine] = engine
	}
	name := filepath.Join(env.Cgroup(), "load-"+cluster.Server.Name)
	if err := realkubelet.MakeCgroups(name); err != nil {
		return nil, err
	}
	p.started, p.pods = cpuGroupOf(name), cpuGroupOf(cluster.Cgroup())
	for _, part := range []string{partServer, partEngine} {
		for _, pid := range p.processes[part] {
			if err := p.started.add(pid); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// cpuTimes has the CPU time that each part has used so far.
type cpuTimes map[string]time.Duration

func (p *parts) cpu() (cpuTimes, error) {
	all := make(cpuTimes)
	var err error
	for part, pids := range p.processes {
		if all[part], err = usage.CPUTime(pids); err != nil {
			return nil, err
		}
	}
	started, err := p.started.used()
	if err != nil {
		return nil, err
	}
	all[partShims] = started - all[partServer] - all[partEngine]
	all[partPods], err = p.pods.used()
	return all, err
}

// minus returns the CPU time used since an earlier measurement, in seconds. The kernel's figures are not all of one
// moment, so a difference may be negative. A negative difference counts as 0.
func (c cpuTimes) minus(earlier cpuTimes) map[string]float64 {
	used := make(map[string]float64)
	for part, now := range c {
		used[part] = max(0, now-earlier[part]).Seconds()
	}
	return used
}

// memory returns the memory of each part, in MiB, and the number of shims. A page that several processes share is
// divided among them.
func (p *parts) memory() (held map[string]float64, shims int, err error) {
	held = make(map[string]float64)
	for part, pids := range p.processes {
		if held[part], err = memoryOf(pids, false); err != nil {
			return nil, 0, err
		}
	}
	pids, err := usage.Shims()
	if err != nil {
		return nil, 0, err
	}
	held[partShims], err = memoryOf(pids, true)
	return held, len(pids), err
}

// memoryOf adds up the memory of processes. With mayEnd, it skips processes that have ended.
func memoryOf(pids []int, mayEnd bool) (float64, error) {
	sum := 0
	for _, pid := range pids {
		kib, err := usage.ProportionalMemory([]int{pid})
		if mayEnd && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)) {
			continue
		}
		if err != nil {
			return 0, err
		}
		sum += kib
	}
	return float64(sum) / 1024, nil
}
