package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Summary and the types below are the part of the kubelet's summary API (stats/v1alpha1) that CRI figures fill; the names
// in JSON are that API's. Bytes, nanoseconds and nanocores.
type Summary struct {
	Node NodeStats  `json:"node"`
	Pods []PodStats `json:"pods"`
}

// NodeStats is the node itself.
type NodeStats struct {
	NodeName  string      `json:"nodeName"`
	StartTime metav1.Time `json:"startTime"`
}

// PodStats is one pod.
type PodStats struct {
	PodRef     PodReference     `json:"podRef"`
	Containers []ContainerStats `json:"containers"`
	CPU        *CPUStats        `json:"cpu,omitempty"`
	Memory     *MemoryStats     `json:"memory,omitempty"`
	Network    *NetworkStats    `json:"network,omitempty"`
	Processes  *ProcessStats    `json:"process_stats,omitempty"`
}

// PodReference names a pod.
type PodReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// ContainerStats is one container.
type ContainerStats struct {
	Name   string       `json:"name"`
	CPU    *CPUStats    `json:"cpu,omitempty"`
	Memory *MemoryStats `json:"memory,omitempty"`
	Rootfs *FsStats     `json:"rootfs,omitempty"`
	Swap   *SwapStats   `json:"swap,omitempty"`
}

// CPUStats is processor time.
type CPUStats struct {
	Time                 metav1.Time `json:"time"`
	UsageNanoCores       *uint64     `json:"usageNanoCores,omitempty"`
	UsageCoreNanoSeconds *uint64     `json:"usageCoreNanoSeconds,omitempty"`
}

// MemoryStats is memory.
type MemoryStats struct {
	Time            metav1.Time `json:"time"`
	AvailableBytes  *uint64     `json:"availableBytes,omitempty"`
	UsageBytes      *uint64     `json:"usageBytes,omitempty"`
	WorkingSetBytes *uint64     `json:"workingSetBytes,omitempty"`
	RSSBytes        *uint64     `json:"rssBytes,omitempty"`
	PageFaults      *uint64     `json:"pageFaults,omitempty"`
	MajorPageFaults *uint64     `json:"majorPageFaults,omitempty"`
}

// SwapStats is swap.
type SwapStats struct {
	Time               metav1.Time `json:"time"`
	SwapAvailableBytes *uint64     `json:"swapAvailableBytes,omitempty"`
	SwapUsageBytes     *uint64     `json:"swapUsageBytes,omitempty"`
}

// FsStats is a container's writable layer.
type FsStats struct {
	Time       metav1.Time `json:"time"`
	UsedBytes  *uint64     `json:"usedBytes,omitempty"`
	InodesUsed *uint64     `json:"inodesUsed,omitempty"`
}

// NetworkStats is the pod's default interface.
type NetworkStats struct {
	Time     metav1.Time `json:"time"`
	Name     string      `json:"name"`
	RxBytes  *uint64     `json:"rxBytes,omitempty"`
	RxErrors *uint64     `json:"rxErrors,omitempty"`
	TxBytes  *uint64     `json:"txBytes,omitempty"`
	TxErrors *uint64     `json:"txErrors,omitempty"`
}

// ProcessStats counts processes.
type ProcessStats struct {
	ProcessCount *uint64 `json:"process_count,omitempty"`
}

func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	stats, err := s.opts.Stats.ListPodSandboxStats(r.Context(), &runtimeapi.PodSandboxStatsFilter{LabelSelector: s.opts.Selector})
	if err != nil {
		http.Error(w, "the runtime's pod figures: "+err.Error(), http.StatusBadGateway)
		return
	}
	out := Summary{Node: NodeStats{NodeName: s.opts.Config.Node, StartTime: metav1.NewTime(s.started)}, Pods: []PodStats{}}
	for _, pod := range stats {
		out.Pods = append(out.Pods, podStats(pod))
	}
	slices.SortFunc(out.Pods, func(a, b PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name))
	})
	answer(w, out)
}

func podStats(pod *runtimeapi.PodSandboxStats) PodStats {
	meta := pod.GetAttributes().GetMetadata()
	out := PodStats{
		PodRef:     PodReference{Name: meta.GetName(), Namespace: meta.GetNamespace(), UID: meta.GetUid()},
		Containers: []ContainerStats{},
		CPU:        cpuStats(pod.GetLinux().GetCpu()),
		Memory:     memoryStats(pod.GetLinux().GetMemory()),
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
	for _, container := range pod.GetLinux().GetContainers() {
		out.Containers = append(out.Containers, containerStats(container))
	}
	return out
}

func containerStats(c *runtimeapi.ContainerStats) ContainerStats {
	out := ContainerStats{Name: c.GetAttributes().GetLabels()[model.LabelContainerName], CPU: cpuStats(c.GetCpu()), Memory: memoryStats(c.GetMemory())}
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
	return &CPUStats{Time: at(cpu.GetTimestamp()), UsageNanoCores: value(cpu.GetUsageNanoCores()), UsageCoreNanoSeconds: value(cpu.GetUsageCoreNanoSeconds())}
}

func memoryStats(m *runtimeapi.MemoryUsage) *MemoryStats {
	if m == nil {
		return nil
	}
	return &MemoryStats{
		Time: at(m.GetTimestamp()), AvailableBytes: value(m.GetAvailableBytes()), UsageBytes: value(m.GetUsageBytes()),
		WorkingSetBytes: value(m.GetWorkingSetBytes()), RSSBytes: value(m.GetRssBytes()),
		PageFaults: value(m.GetPageFaults()), MajorPageFaults: value(m.GetMajorPageFaults()),
	}
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
