package stats

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func number(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

func cpuUsage(found look) *runtimeapi.CpuUsage {
	if found.cpu == nil {
		return nil
	}
	usage := &runtimeapi.CpuUsage{
		Timestamp:            found.taken.UnixNano(),
		UsageCoreNanoSeconds: number(found.cpu.usage),
		Psi:                  psi(found.cpuPressure),
	}
	if found.nanoCores != nil {
		usage.UsageNanoCores = number(*found.nanoCores)
	}
	return usage
}

func memoryUsage(found look) *runtimeapi.MemoryUsage {
	m := found.memory
	if m == nil {
		return nil
	}
	return &runtimeapi.MemoryUsage{
		Timestamp:       found.taken.UnixNano(),
		WorkingSetBytes: number(m.workingSet()),
		AvailableBytes:  rest(m.limit, m.workingSet()),
		UsageBytes:      number(m.usage),
		RssBytes:        number(m.rss),
		PageFaults:      number(m.faults),
		MajorPageFaults: number(m.majorFaults),
		Psi:             psi(found.memoryPressure),
	}
}

// rest is what a limit leaves, nil where there is none.
func rest(limit, used uint64) *runtimeapi.UInt64Value {
	switch {
	case limit == unlimited:
		return nil
	case limit < used:
		return number(0)
	default:
		return number(limit - used)
	}
}

func swapUsage(found look) *runtimeapi.SwapUsage {
	m := found.memory
	if m == nil || !m.hasSwap {
		return nil
	}
	return &runtimeapi.SwapUsage{
		Timestamp:          found.taken.UnixNano(),
		SwapUsageBytes:     number(m.swap),
		SwapAvailableBytes: rest(m.swapLimit, m.swap),
	}
}

func ioUsage(found look) *runtimeapi.IoUsage {
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
