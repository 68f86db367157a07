package translate

import (
	"fmt"
	"path/filepath"
	"strconv"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Shares of version 1 and weights of version 2, and how the first become the second (KEP-2254).
const (
	minShares, maxShares = 2, 262144
	minWeight, maxWeight = 1, 10000
)

// defaultCPUPeriod is the kernel's, in microseconds.
const defaultCPUPeriod = 100_000

// PodLimits are what limits a pod as a whole.
type PodLimits struct {
	// Overhead is what the pod needs besides its containers, and Resources the sum of what these may use.
	Overhead, Resources *runtimeapi.LinuxContainerResources
}

// Check refuses limits that make no sense with errdefs.ErrInvalidArgument. prefix is put before the fields' names.
func (l PodLimits) Check(prefix string) error {
	if err := checkResources(prefix+"overhead", l.Overhead); err != nil {
		return err
	}
	return checkResources(prefix+"resources", l.Resources)
}

// Files returns the limits of CPU and memory as files in the directories of a pod's cgroup. dirs are by controller of
// version 1, or under "" for version 2. The overhead is added to the limits in Resources. Zero limits are not written.
func (l PodLimits) Files(dirs map[string]string) []CgroupFile {
	if dir, ok := dirs[""]; ok {
		return l.unifiedFiles(dir)
	}
	var files []CgroupFile
	add := func(controller, name string, value int64, field string) {
		if dir, ok := dirs[controller]; ok && value != 0 {
			files = append(files, CgroupFile{Name: filepath.Join(dir, name), Value: strconv.FormatInt(value, 10), Field: field})
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
	if memory := l.memory(); memory != 0 {
		add("memory.max", strconv.FormatInt(memory, 10), "resources.memory_limit_in_bytes")
	}
	return files
}

func (l PodLimits) shares() int64 { return l.Resources.GetCpuShares() + l.Overhead.GetCpuShares() }

func (l PodLimits) memory() int64 {
	if l.Resources.GetMemoryLimitInBytes() == 0 {
		return 0
	}
	return l.Resources.GetMemoryLimitInBytes() + l.Overhead.GetMemoryLimitInBytes()
}

// quota returns the time that the pod may use in a period, both in microseconds: -1 for any, and zero for nothing said.
func (l PodLimits) quota() (quota, period int64) {
	quota, period = l.Resources.GetCpuQuota(), l.Resources.GetCpuPeriod()
	if quota == 0 {
		return 0, 0
	}
	if period == 0 {
		period = defaultCPUPeriod
	}
	if quota > 0 && l.Overhead.GetCpuQuota() > 0 {
		own := l.Overhead.GetCpuPeriod()
		if own == 0 {
			own = defaultCPUPeriod
		}
		quota += l.Overhead.GetCpuQuota() * period / own
	}
	return quota, period
}
