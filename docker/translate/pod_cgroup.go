package translate

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Bounds of cpu.shares (cgroup v1) and of cpu.weight (cgroup v2). KEP-2254 maps the first range to the second.
const (
	minShares, maxShares = 2, 262144
	minWeight, maxWeight = 1, 10000
)

// defaultCPUPeriod is the kernel's default CFS period, in microseconds.
const defaultCPUPeriod = 100_000

// PodLimits are the resource limits of a pod as a whole.
type PodLimits struct {
	// Overhead is the pod's own use besides its containers. Resources is the sum of the containers' limits.
	Overhead, Resources *runtimeapi.LinuxContainerResources
}

// Check returns errdefs.ErrInvalidArgument for invalid limits. prefix precedes the field names in its errors. It checks
// the quota of the whole pod, because a kubelet subtracts the overhead's quota from it. The rest may be below the
// kernel's minimum. Kubelets before v1.37 subtract even from -1, so any negative quota means no limit. So does any
// negative memory limit: kubelets read "max" of a cgroup as -1, and subtract the overhead from it.
func (l PodLimits) Check(prefix string) error {
	if err := checkResources(prefix+"overhead", l.Overhead); err != nil {
		return err
	}
	resources := l.Resources
	if quota, _ := l.quota(); quota != 0 {
		resources = proto.CloneOf(resources)
		resources.CpuQuota = quota
	}
	if resources.GetMemoryLimitInBytes() < 0 {
		resources = proto.CloneOf(resources)
		resources.MemoryLimitInBytes = 0
	}
	return checkResources(prefix+"resources", resources)
}

// Files returns the CPU and memory limits as files of a pod's cgroup. dirs has a directory for each controller of
// cgroup v1, or one directory under "" for v2. Files adds the overhead to the limits in Resources, and leaves out zero
// limits.
func (l PodLimits) Files(dirs map[string]string) []CgroupFile {
	if dir, ok := dirs[""]; ok {
		return l.unifiedFiles(dir)
	}
	var files []CgroupFile
	add := func(controller, name string, value int64, field string) {
		if dir, ok := dirs[controller]; ok && value != 0 {
			files = append(files,
				CgroupFile{Name: filepath.Join(dir, name), Value: strconv.FormatInt(value, 10), Field: field})
		}
	}
	add("cpu", "cpu.shares", l.shares(), "resources.cpu_shares")
	quota, period := l.quota()
	add("cpu", "cpu.cfs_period_us", period, "resources.cpu_period")
	add("cpu", "cpu.cfs_quota_us", quota, "resources.cpu_quota")
	add("memory", "memory.limit_in_bytes", l.memory(), "resources.memory_limit_in_bytes")
	return files
}

func (l PodLimits) unifiedFiles(dir string) []CgroupFile {
	var files []CgroupFile
	add := func(name, value, field string) {
		files = append(files, CgroupFile{Name: filepath.Join(dir, name), Value: value, Field: field})
	}
	if shares := l.shares(); shares != 0 {
		shares = min(max(shares, minShares), maxShares)
		weight := minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
		add("cpu.weight", strconv.FormatInt(weight, 10), "resources.cpu_shares")
	}
	switch quota, period := l.quota(); {
	case quota > 0:
		add("cpu.max", fmt.Sprintf("%d %d", quota, period), "resources.cpu_quota")
	case quota < 0:
		add("cpu.max", cgroupMax, "resources.cpu_quota")
	}
	switch memory := l.memory(); {
	case memory > 0:
		add("memory.max", strconv.FormatInt(memory, 10), "resources.memory_limit_in_bytes")
	case memory < 0:
		add("memory.max", cgroupMax, "resources.memory_limit_in_bytes")
	}
	return files
}

func (l PodLimits) shares() int64 { return l.Resources.GetCpuShares() + l.Overhead.GetCpuShares() }

// memory returns the memory limit in bytes. A limit of -1 means no limit, and zero not specified.
func (l PodLimits) memory() int64 {
	switch limit := l.Resources.GetMemoryLimitInBytes(); {
	case limit == 0:
		return 0
	case limit < 0:
		return unlimited
	default:
		return limit + l.Overhead.GetMemoryLimitInBytes()
	}
}

// quota returns the CPU time that the pod may use in each period, both in microseconds. A quota of -1 means no limit,
// and zero not specified.
func (l PodLimits) quota() (quota, period int64) {
	quota, period = l.Resources.GetCpuQuota(), cmp.Or(l.Resources.GetCpuPeriod(), defaultCPUPeriod)
	switch {
	case quota == 0:
		return 0, 0
	case quota < 0:
		return unlimited, period
	}
	if l.Overhead.GetCpuQuota() > 0 {
		own := cmp.Or(l.Overhead.GetCpuPeriod(), defaultCPUPeriod)
		quota += l.Overhead.GetCpuQuota() * period / own
	}
	return quota, period
}
