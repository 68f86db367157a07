package nri

import (
	"context"
	"fmt"
	"maps"

	"github.com/containerd/errdefs"
	"github.com/containerd/nri/pkg/api"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fromCRI describes limits. The result is never nil: plugins may read it without a check. It shares nothing with r.
func fromCRI(r *runtimeapi.LinuxContainerResources) *api.LinuxResources {
	described := &api.LinuxResources{Memory: &api.LinuxMemory{}, Cpu: &api.LinuxCPU{
		Cpus: r.GetCpusetCpus(), Mems: r.GetCpusetMems()}, Unified: maps.Clone(r.GetUnified())}
	if v := r.GetMemoryLimitInBytes(); v != 0 {
		described.Memory.Limit = api.Int64(v)
	}
	if v := r.GetMemorySwapLimitInBytes(); v != 0 {
		described.Memory.Swap = api.Int64(v)
	}
	if v := r.GetCpuShares(); v != 0 {
		described.Cpu.Shares = api.UInt64(v)
	}
	if v := r.GetCpuQuota(); v != 0 {
		described.Cpu.Quota = api.Int64(v)
	}
	if v := r.GetCpuPeriod(); v != 0 {
		described.Cpu.Period = api.UInt64(v)
	}
	for _, limit := range r.GetHugepageLimits() {
		described.HugepageLimits = append(described.HugepageLimits,
			&api.HugepageLimit{PageSize: limit.GetPageSize(), Limit: limit.GetLimit()})
	}
	return described
}

// toCRI splits limits into limits that CRI has a field for, and others that Docker's API can change. Any further limit
// is refused with ErrNotImplemented.
func toCRI(r *api.LinuxResources) (*runtimeapi.LinuxContainerResources, container.Resources, error) {
	if err := checkKnown(r); err != nil {
		return nil, container.Resources{}, err
	}
	limits := &runtimeapi.LinuxContainerResources{
		MemoryLimitInBytes:     r.GetMemory().GetLimit().GetValue(),
		MemorySwapLimitInBytes: r.GetMemory().GetSwap().GetValue(),
		CpuShares:              int64(r.GetCpu().GetShares().GetValue()),
		CpuQuota:               r.GetCpu().GetQuota().GetValue(),
		CpuPeriod:              int64(r.GetCpu().GetPeriod().GetValue()),
		CpusetCpus:             r.GetCpu().GetCpus(),
		CpusetMems:             r.GetCpu().GetMems(),
		Unified:                r.GetUnified(),
	}
	for _, limit := range r.GetHugepageLimits() {
		limits.HugepageLimits = append(limits.HugepageLimits,
			&runtimeapi.HugepageLimit{PageSize: limit.GetPageSize(), Limit: limit.GetLimit()})
	}
	more := container.Resources{
		MemoryReservation:  r.GetMemory().GetReservation().GetValue(),
		CPURealtimeRuntime: r.GetCpu().GetRealtimeRuntime().GetValue(),
		CPURealtimePeriod:  int64(r.GetCpu().GetRealtimePeriod().GetValue()),
	}
	if pids := r.GetPids(); pids != nil {
		more.PidsLimit = &pids.Limit
	}
	return limits, more, nil
}

// checkKnown refuses limits that cannot change while a container exists.
func checkKnown(r *api.LinuxResources) error {
	memory := r.GetMemory()
	for field, set := range map[string]bool{
		"memory.kernel": memory.GetKernel() != nil, "memory.kernel_tcp": memory.GetKernelTcp() != nil,
		"memory.swappiness": memory.GetSwappiness() != nil, "memory.use_hierarchy": memory.GetUseHierarchy() != nil,
		"memory.disable_oom_killer": memory.GetDisableOomKiller() != nil, "devices": len(r.GetDevices()) > 0,
	} {
		if set {
			return unsupported("linux.resources."+field, "it cannot be changed in an existing container")
		}
	}
	return checkClasses(r)
}

// checkClasses refuses classes of block I/O and RDT, because this program does not have the configuration files that
// define them.
func checkClasses(r *api.LinuxResources) error {
	switch {
	case r.GetBlockioClass().GetValue() != "":
		return unsupported("linux.resources.blockio_class", "there is no configuration of block I/O classes")
	case r.GetRdtClass().GetValue() != "":
		return unsupported("linux.resources.rdt_class",
			"there is no configuration of RDT classes; linux.rdt.clos_id names a class of the kernel")
	}
	return nil
}

func unsupported(field, why string) error {
	return fmt.Errorf("NRI plugin: %s: %s: %w", field, why, errdefs.ErrNotImplemented)
}

// limitMore applies limits that CRI has no field for.
func (s *Service) limitMore(ctx context.Context, id string, more container.Resources) error {
	if more.PidsLimit == nil && more.MemoryReservation == 0 && more.CPURealtimeRuntime == 0 &&
		more.CPURealtimePeriod == 0 {
		return nil
	}
	return s.opts.Engine.UpdateContainer(ctx, id, more)
}
