package nodeapi

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// podStats converts the stats of a pod. Known is the kubelet's pod, or nil if the kubelet does not have it.
func podStats(pod *runtimeapi.PodSandboxStats, known *v1.Pod) statsapi.PodStats {
	meta := pod.GetAttributes().GetMetadata()
	out := statsapi.PodStats{
		PodRef:     statsapi.PodReference{Name: meta.GetName(), Namespace: meta.GetNamespace(), UID: meta.GetUid()},
		Containers: []statsapi.ContainerStats{},
		CPU:        cpuStats(pod.GetLinux().GetCpu()),
		Memory:     memoryStats(pod.GetLinux().GetMemory()),
		IO:         ioStats(pod.GetLinux().GetIo()),
	}
	if network := pod.GetLinux().GetNetwork(); network.GetDefaultInterface() != nil {
		out.Network = &statsapi.NetworkStats{
			Time: at(network.GetTimestamp()), InterfaceStats: interfaceStats(network.GetDefaultInterface()),
		}
		for _, other := range network.GetInterfaces() {
			out.Network.Interfaces = append(out.Network.Interfaces, interfaceStats(other))
		}
	}
	if processes := pod.GetLinux().GetProcess(); processes != nil {
		out.ProcessStats = &statsapi.ProcessStats{ProcessCount: value(processes.GetProcessCount())}
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
			out.Containers = slices.DeleteFunc(out.Containers, func(c statsapi.ContainerStats) bool {
				return c.Name == made.Name
			})
		}
		attempts[made.Name] = attempt
		if known != nil {
			if status := model.FindStatus(&known.Status, made.Name); status != nil && status.State.Running != nil {
				made.StartTime = status.State.Running.StartedAt
			}
		}
		out.Containers = append(out.Containers, made)
	}
	return out
}

func interfaceStats(i *runtimeapi.NetworkInterfaceUsage) statsapi.InterfaceStats {
	return statsapi.InterfaceStats{
		Name:    i.GetName(),
		RxBytes: value(i.GetRxBytes()), RxErrors: value(i.GetRxErrors()),
		TxBytes: value(i.GetTxBytes()), TxErrors: value(i.GetTxErrors()),
	}
}

func containerStats(c *runtimeapi.ContainerStats) statsapi.ContainerStats {
	of := c.GetAttributes()
	out := statsapi.ContainerStats{Name: cmp.Or(of.GetLabels()[model.LabelContainerName], of.GetMetadata().GetName()),
		CPU: cpuStats(c.GetCpu()), Memory: memoryStats(c.GetMemory()), IO: ioStats(c.GetIo())}
	if layer := c.GetWritableLayer(); layer != nil {
		out.Rootfs = &statsapi.FsStats{Time: at(layer.GetTimestamp()), UsedBytes: value(layer.GetUsedBytes()),
			InodesUsed: value(layer.GetInodesUsed())}
	}
	if swap := c.GetSwap(); swap != nil {
		out.Swap = &statsapi.SwapStats{Time: at(swap.GetTimestamp()),
			SwapAvailableBytes: value(swap.GetSwapAvailableBytes()), SwapUsageBytes: value(swap.GetSwapUsageBytes())}
	}
	return out
}

func cpuStats(cpu *runtimeapi.CpuUsage) *statsapi.CPUStats {
	if cpu == nil {
		return nil
	}
	return &statsapi.CPUStats{Time: at(cpu.GetTimestamp()), UsageNanoCores: value(cpu.GetUsageNanoCores()),
		UsageCoreNanoSeconds: value(cpu.GetUsageCoreNanoSeconds()), PSI: psiStats(cpu.GetPsi())}
}

func memoryStats(m *runtimeapi.MemoryUsage) *statsapi.MemoryStats {
	if m == nil {
		return nil
	}
	return &statsapi.MemoryStats{
		Time: at(m.GetTimestamp()), AvailableBytes: value(m.GetAvailableBytes()), UsageBytes: value(m.GetUsageBytes()),
		WorkingSetBytes: value(m.GetWorkingSetBytes()), RSSBytes: value(m.GetRssBytes()),
		PageFaults: value(m.GetPageFaults()), MajorPageFaults: value(m.GetMajorPageFaults()), PSI: psiStats(m.GetPsi()),
	}
}

func ioStats(io *runtimeapi.IoUsage) *statsapi.IOStats {
	if io == nil {
		return nil
	}
	return &statsapi.IOStats{Time: at(io.GetTimestamp()), PSI: psiStats(io.GetPsi())}
}

func psiStats(psi *runtimeapi.PsiStats) *statsapi.PSIStats {
	if psi == nil {
		return nil
	}
	return &statsapi.PSIStats{Full: psiData(psi.GetFull()), Some: psiData(psi.GetSome())}
}

func psiData(d *runtimeapi.PsiData) statsapi.PSIData {
	return statsapi.PSIData{Total: d.GetTotal(), Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300()}
}

// value returns nil for a missing value.
func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return new(v.GetValue())
}

func at(nanoseconds int64) metav1.Time { return metav1.Time{Time: time.Unix(0, nanoseconds)} }
