package stats

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func number(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

// ifKnown returns nil if n is unknown.
func ifKnown(n *uint64) *runtimeapi.UInt64Value {
	if n == nil {
		return nil
	}
	return number(*n)
}

func cpuUsage(found sample) *runtimeapi.CpuUsage {
	if found.cpu == nil {
		return nil
	}
	return &runtimeapi.CpuUsage{
		Timestamp:            found.taken.UnixNano(),
		UsageCoreNanoSeconds: number(found.cpu.usage),
		UsageNanoCores:       ifKnown(found.nanoCores),
		Psi:                  psi(found.cpuPressure),
	}
}

func memoryUsage(found sample) *runtimeapi.MemoryUsage {
	m := found.memory
	if m == nil {
		return nil
	}
	return &runtimeapi.MemoryUsage{
		Timestamp:       found.taken.UnixNano(),
		WorkingSetBytes: ifKnown(m.workingSet()),
		AvailableBytes:  available(m.limit, m.workingSet()),
		UsageBytes:      number(m.usage),
		RssBytes:        ifKnown(m.rss),
		PageFaults:      ifKnown(m.faults),
		MajorPageFaults: ifKnown(m.majorFaults),
		Psi:             psi(found.memoryPressure),
	}
}

// available returns the limit minus the use. It is nil without a limit or if the use is unknown.
func available(limit uint64, used *uint64) *runtimeapi.UInt64Value {
	if limit == unlimited || used == nil {
		return nil
	}
	return number(limit - min(limit, *used))
}

func swapUsage(found sample) *runtimeapi.SwapUsage {
	m := found.memory
	if m == nil || m.swap == nil {
		return nil
	}
	return &runtimeapi.SwapUsage{
		Timestamp:          found.taken.UnixNano(),
		SwapUsageBytes:     number(*m.swap),
		SwapAvailableBytes: available(m.swapLimit, m.swap),
	}
}

func ioUsage(found sample) *runtimeapi.IoUsage {
	if found.ioPressure == nil {
		return nil
	}
	return &runtimeapi.IoUsage{Timestamp: found.taken.UnixNano(), Psi: psi(found.ioPressure)}
}

func psi(p *pressure) *runtimeapi.PsiStats {
	if p == nil {
		return nil
	}
	stats := &runtimeapi.PsiStats{Some: psiData(p.some)}
	if p.hasFull {
		stats.Full = psiData(p.full)
	}
	return stats
}

func psiData(s stall) *runtimeapi.PsiData {
	return &runtimeapi.PsiData{Total: s.total, Avg10: s.avg10, Avg60: s.avg60, Avg300: s.avg300}
}
