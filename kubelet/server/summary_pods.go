package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// summary answers with all figures, or with ?only_cpu_and_memory=true with those alone.
func (s *reads) summary(w http.ResponseWriter, r *http.Request) {
	alone, err := boolean(r.URL.Query(), "only_cpu_and_memory")
	if err != nil {
		fail(w, err)
		return
	}
	out, err := s.summarize(r.Context(), alone)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	answer(w, out)
}

// summarize gathers the figures. The node's are there as far as they can be had.
func (s *reads) summarize(ctx context.Context, cpuAndMemory bool) (Summary, error) {
	stats, err := s.Stats.ListPodSandboxStats(ctx, &runtimeapi.PodSandboxStatsFilter{LabelSelector: s.Selector})
	if err != nil {
		return Summary{}, fmt.Errorf("the runtime's pod figures: %w", err)
	}
	out := Summary{Node: s.node.stats(s.Config.Node), Pods: []PodStats{}}
	if !cpuAndMemory {
		out.Node.Fs = fsStats(s.Config.RootDir, time.Now())
		out.Node.Runtime = s.runtimeStats(ctx)
	}
	known := map[string]*v1.Pod{}
	for _, pod := range s.Pods() {
		known[string(pod.UID)] = pod
	}
	for _, pod := range newest(stats) {
		made := podStats(pod, known[pod.GetAttributes().GetMetadata().GetUid()])
		if cpuAndMemory {
			made.onlyCPUAndMemory()
		}
		out.Pods = append(out.Pods, made)
	}
	slices.SortFunc(out.Pods, func(a, b PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name), cmp.Compare(a.PodRef.UID, b.PodRef.UID))
	})
	return out, nil
}

// newest leaves one sandbox of each pod: while one takes the place of another the runtime lists both.
func newest(stats []*runtimeapi.PodSandboxStats) map[string]*runtimeapi.PodSandboxStats {
	pods := map[string]*runtimeapi.PodSandboxStats{}
	for _, pod := range stats {
		meta := pod.GetAttributes().GetMetadata()
		if other := pods[meta.GetUid()]; other == nil || other.GetAttributes().GetMetadata().GetAttempt() < meta.GetAttempt() {
			pods[meta.GetUid()] = pod
		}
	}
	return pods
}

// onlyCPUAndMemory drops the other figures.
func (p *PodStats) onlyCPUAndMemory() {
	p.Network, p.Processes, p.IO = nil, nil, nil
	for i := range p.Containers {
		p.Containers[i].Rootfs, p.Containers[i].IO = nil, nil
	}
}

// podStats makes the figures of a pod; known is nil for one that the kubelet does not know.
func podStats(pod *runtimeapi.PodSandboxStats, known *v1.Pod) PodStats {
	meta := pod.GetAttributes().GetMetadata()
	out := PodStats{
		PodRef:     PodReference{Name: meta.GetName(), Namespace: meta.GetNamespace(), UID: meta.GetUid()},
		Containers: []ContainerStats{},
		CPU:        cpuStats(pod.GetLinux().GetCpu()),
		Memory:     memoryStats(pod.GetLinux().GetMemory()),
		IO:         ioStats(pod.GetLinux().GetIo()),
	}
	if network := pod.GetLinux().GetNetwork().GetDefaultInterface(); network != nil {
		out.Network = &NetworkStats{
			Time: at(pod.GetLinux().GetNetwork().GetTimestamp()), Name: network.GetName(),
			RxBytes: value(network.GetRxBytes()), RxErrors: value(network.GetRxErrors()),
			TxBytes: value(network.GetTxBytes()), TxErrors: value(network.GetTxErrors()),
		}
	}
	if processes := pod.GetLinux().GetProcess(); processes != nil {
		out.Processes = &ProcessStats{ProcessCount: value(processes.GetProcessCount())}
	}
	if known != nil && known.Status.StartTime != nil {
		out.StartTime = *known.Status.StartTime
	}
	attempts := map[string]uint32{}
	for _, container := range pod.GetLinux().GetContainers() {
		made, attempt := containerStats(container), container.GetAttributes().GetMetadata().GetAttempt()
		if other, ok := attempts[made.Name]; ok {
			if attempt < other {
				continue
			}
			out.Containers = slices.DeleteFunc(out.Containers, func(c ContainerStats) bool { return c.Name == made.Name })
		}
		attempts[made.Name] = attempt
		if known != nil {
			if status := model.FindStatus(known, made.Name); status != nil && status.State.Running != nil {
				made.StartTime = status.State.Running.StartedAt
			}
		}
		out.Containers = append(out.Containers, made)
	}
	return out
}

func containerStats(c *runtimeapi.ContainerStats) ContainerStats {
	out := ContainerStats{Name: c.GetAttributes().GetLabels()[model.LabelContainerName], CPU: cpuStats(c.GetCpu()), Memory: memoryStats(c.GetMemory()), IO: ioStats(c.GetIo())}
	if out.Name == "" {
		out.Name = c.GetAttributes().GetMetadata().GetName()
	}
	if layer := c.GetWritableLayer(); layer != nil {
		out.Rootfs = &FsStats{Time: at(layer.GetTimestamp()), UsedBytes: value(layer.GetUsedBytes()), InodesUsed: value(layer.GetInodesUsed())}
	}
	if swap := c.GetSwap(); swap != nil {
		out.Swap = &SwapStats{Time: at(swap.GetTimestamp()), SwapAvailableBytes: value(swap.GetSwapAvailableBytes()), SwapUsageBytes: value(swap.GetSwapUsageBytes())}
	}
	return out
}

func cpuStats(cpu *runtimeapi.CpuUsage) *CPUStats {
	if cpu == nil {
		return nil
	}
	return &CPUStats{Time: at(cpu.GetTimestamp()), UsageNanoCores: value(cpu.GetUsageNanoCores()), UsageCoreNanoSeconds: value(cpu.GetUsageCoreNanoSeconds()), PSI: psiStats(cpu.GetPsi())}
}

func memoryStats(m *runtimeapi.MemoryUsage) *MemoryStats {
	if m == nil {
		return nil
	}
	return &MemoryStats{
		Time: at(m.GetTimestamp()), AvailableBytes: value(m.GetAvailableBytes()), UsageBytes: value(m.GetUsageBytes()),
		WorkingSetBytes: value(m.GetWorkingSetBytes()), RSSBytes: value(m.GetRssBytes()),
		PageFaults: value(m.GetPageFaults()), MajorPageFaults: value(m.GetMajorPageFaults()), PSI: psiStats(m.GetPsi()),
	}
}

func ioStats(io *runtimeapi.IoUsage) *IOStats {
	if io == nil {
		return nil
	}
	return &IOStats{Time: at(io.GetTimestamp()), PSI: psiStats(io.GetPsi())}
}

func psiStats(psi *runtimeapi.PsiStats) *PSIStats {
	if psi == nil {
		return nil
	}
	return &PSIStats{Full: psiData(psi.GetFull()), Some: psiData(psi.GetSome())}
}

func psiData(d *runtimeapi.PsiData) PSIData {
	return PSIData{Total: d.GetTotal(), Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300()}
}

// value is nil for a figure that the runtime does not have.
func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	number := v.GetValue()
	return &number
}

func at(nanoseconds int64) metav1.Time { return metav1.Time{Time: time.Unix(0, nanoseconds)} }
