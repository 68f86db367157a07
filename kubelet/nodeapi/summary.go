package nodeapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// summary answers with all stats. With ?only_cpu_and_memory=true it answers only with CPU and memory.
func (s *reads) summary(w http.ResponseWriter, r *http.Request) {
	alone, err := boolean(r.URL.Query(), "only_cpu_and_memory")
	if err != nil {
		writeError(w, err)
		return
	}
	out, err := s.summarize(r.Context(), alone)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	writeJSON(w, r, out)
}

// summarize gathers the stats. Stats of the node that cannot be read are left out.
func (s *reads) summarize(ctx context.Context, cpuAndMemory bool) (*statsapi.Summary, error) {
	stats, err := s.Stats.ListPodSandboxStats(ctx, &runtimeapi.PodSandboxStatsFilter{LabelSelector: s.Selector})
	if err != nil {
		return nil, fmt.Errorf("the runtime's pod stats: %w", err)
	}
	out := &statsapi.Summary{Node: s.node.stats(ctx, s.Config.Node), Pods: []statsapi.PodStats{}}
	var logs *statsapi.FsStats
	if !cpuAndMemory {
		out.Node.Fs = fsStats(ctx, s.Config.RootDir, time.Now())
		out.Node.Runtime = s.runtimeStats(ctx)
		logs = fsStats(ctx, s.Config.PodLogsDir, time.Now())
	}
	known := map[string]*v1.Pod{}
	for _, pod := range s.Pods() {
		known[string(pod.UID)] = pod
	}
	for _, pod := range newest(stats) {
		of := known[pod.GetAttributes().GetMetadata().GetUid()]
		made := podStats(pod, of)
		if cpuAndMemory {
			onlyCPUAndMemory(&made)
		} else if of != nil {
			s.diskStats(ctx, &made, of, out.Node.Fs, logs)
		}
		out.Pods = append(out.Pods, made)
	}
	slices.SortFunc(out.Pods, func(a, b statsapi.PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name),
			cmp.Compare(a.PodRef.UID, b.PodRef.UID))
	})
	return out, nil
}

// newest keeps the newest sandbox of each pod. While a sandbox is being replaced, the runtime lists the old and the new
// one.
func newest(stats []*runtimeapi.PodSandboxStats) map[string]*runtimeapi.PodSandboxStats {
	pods := map[string]*runtimeapi.PodSandboxStats{}
	for _, pod := range stats {
		meta := pod.GetAttributes().GetMetadata()
		if other := pods[meta.GetUid()]; other == nil ||
			other.GetAttributes().GetMetadata().GetAttempt() < meta.GetAttempt() {
			pods[meta.GetUid()] = pod
		}
	}
	return pods
}

// onlyCPUAndMemory drops the other stats.
func onlyCPUAndMemory(p *statsapi.PodStats) {
	p.Network, p.ProcessStats, p.IO = nil, nil, nil
	for i := range p.Containers {
		p.Containers[i].Rootfs, p.Containers[i].IO = nil, nil
	}
}
