package translate

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

const (
	// The kernel's bounds for CFS bandwidth, in microseconds.
	minCPUPeriod = 1000
	maxCPUPeriod = 1_000_000
	minCPUQuota  = 1000

	maxOOMScore = 1000

	// unlimited is Docker's and CRI's number for no limit.
	unlimited = -1

	// swapMaxKey is the cgroup v2 file that the kubelet sets through unified resources. It limits swap alone, whereas
	// the swap limits of Docker and CRI count memory plus swap.
	swapMaxKey = "memory.swap.max"
	cgroupMax  = "max"
)

// Resources translates a container's limits for Docker's create or update. In CRI and in Docker zero means not
// specified: an update leaves that limit unchanged. Field names in errors begin with "linux", as in
// UpdateContainerResourcesRequest.
//
// The result lacks hugepage_limits and most unified keys, since the Docker API has no field for them: CgroupFiles
// returns them. Without memory_swap_limit_in_bytes, MemorySwap is memory_limit_in_bytes plus memory.swap.max. Unified
// keys are refused on cgroup v1. The result also lacks oom_score_adj, because Docker's update has no field for
// it: OOMScore returns it. Resources validates the values that it leaves out.
func Resources(r *runtimeapi.LinuxContainerResources, f docker.Features) (container.Resources, error) {
	return resources("linux", r, f)
}

func resources(field string, r *runtimeapi.LinuxContainerResources, f docker.Features) (container.Resources, error) {
	if err := checkResources(field, r); err != nil {
		return container.Resources{}, err
	}
	if err := checkHierarchy(field+".unified", r, f); err != nil {
		return container.Resources{}, err
	}
	swap, err := memorySwap(field, r, f)
	if err != nil {
		return container.Resources{}, err
	}
	return container.Resources{
		CPUPeriod:  r.GetCpuPeriod(),
		CPUQuota:   r.GetCpuQuota(),
		CPUShares:  r.GetCpuShares(),
		CpusetCpus: r.GetCpusetCpus(),
		CpusetMems: r.GetCpusetMems(),
		Memory:     r.GetMemoryLimitInBytes(),
		MemorySwap: swap,
	}, nil
}

func checkResources(field string, r *runtimeapi.LinuxContainerResources) error {
	if p := r.GetCpuPeriod(); p != 0 && (p < minCPUPeriod || p > maxCPUPeriod) {
		return invalid(field+".cpu_period", "%d is outside %d to %d microseconds", p, minCPUPeriod, maxCPUPeriod)
	}
	if q := r.GetCpuQuota(); q < unlimited || q > 0 && q < minCPUQuota {
		return invalid(field+".cpu_quota", "%d is neither %d (no limit) nor at least %d microseconds", q, unlimited,
			minCPUQuota)
	}
	if s := r.GetCpuShares(); s < 0 {
		return invalid(field+".cpu_shares", "%d is negative", s)
	}
	if m := r.GetMemoryLimitInBytes(); m < 0 {
		return invalid(field+".memory_limit_in_bytes", "%d is negative", m)
	}
	if err := checkCPUSet(field+".cpuset_cpus", r.GetCpusetCpus()); err != nil {
		return err
	}
	if err := checkCPUSet(field+".cpuset_mems", r.GetCpusetMems()); err != nil {
		return err
	}
	for i, limit := range r.GetHugepageLimits() {
		if err := checkFileWord(item(field+".hugepage_limits", i)+".page_size", limit.GetPageSize()); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.GetUnified())) {
		if err := checkUnifiedKey(field+".unified", key); err != nil {
			return err
		}
	}
	_, err := oomScore(field+".oom_score_adj", r.GetOomScoreAdj(), docker.Features{NegativeOOMScore: true})
	return err
}

// memorySwap returns Docker's MemorySwap, the limit of memory plus swap. CRI's field means the same. If it is missing,
// CRI allows no swap, but Docker would allow as much swap as memory.
func memorySwap(field string, r *runtimeapi.LinuxContainerResources, f docker.Features) (int64, error) {
	memory, swap := r.GetMemoryLimitInBytes(), r.GetMemorySwapLimitInBytes()
	switch {
	case swap < unlimited:
		return 0, invalid(field+".memory_swap_limit_in_bytes", "%d is negative", swap)
	case swap > 0 && swap < memory:
		return 0, invalid(field+".memory_swap_limit_in_bytes",
			"%d is less than memory_limit_in_bytes %d, but the field limits memory plus swap", swap, memory)
	case swap > 0 && memory == 0 && f.SwapLimit:
		// Neither the kernel (v1) nor runc (v2) can limit the sum alone.
		return 0, invalid(field+".memory_swap_limit_in_bytes",
			"needs memory_limit_in_bytes, because the field limits memory plus swap")
	case memory == 0:
		return 0, nil
	case !f.SwapLimit:
		// The engine would replace any value with this one, and warn.
		return unlimited, nil
	case swap != 0:
		return swap, nil
	}
	return unifiedSwap(field+".unified", r, memory)
}

// unifiedSwap returns memory plus the swap of memory.swap.max, which the kubelet sets on cgroup v2.
func unifiedSwap(field string, r *runtimeapi.LinuxContainerResources, memory int64) (int64, error) {
	text, ok := r.GetUnified()[swapMaxKey]
	if !ok {
		return memory, nil
	}
	if strings.TrimSpace(text) == cgroupMax {
		return unlimited, nil
	}
	swap, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || swap < 0 {
		return 0, invalid(field, "%s: %q is neither a number of bytes nor %q", swapMaxKey, text, cgroupMax)
	}
	if swap > math.MaxInt64-memory {
		return unlimited, nil
	}
	return memory + swap, nil
}

// OOMScore returns the oom_score_adj of a container with these limits. The limits must be valid.
func OOMScore(r *runtimeapi.LinuxContainerResources, f docker.Features) int {
	score, _ := oomScore("", r.GetOomScoreAdj(), f)
	return score
}

// oomScore checks an oom_score_adj and returns it. It returns 0 for a negative score that the engine cannot set,
// because the start would fail.
func oomScore(field string, score int64, f docker.Features) (int, error) {
	if score < -maxOOMScore || score > maxOOMScore {
		return 0, invalid(field, "%d is outside %d to %d", score, -maxOOMScore, maxOOMScore)
	}
	if score < 0 && !f.NegativeOOMScore {
		return 0, nil
	}
	return int(score), nil
}

// checkCPUSet checks the form of a list such as 0-3,7. Only the engine knows whether the node has these CPUs or memory
// nodes.
func checkCPUSet(field, set string) error {
	if set == "" {
		return nil
	}
	for span := range strings.SplitSeq(set, ",") {
		first, last, isRange := strings.Cut(span, "-")
		low, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return invalid(field, "%q is not a list of numbers and ranges", set)
		}
		if !isRange {
			continue
		}
		if high, err := strconv.ParseUint(last, 10, 16); err != nil || high < low {
			return invalid(field, "%q is not a list of numbers and ranges", set)
		}
	}
	return nil
}

// unifiedHierarchy is the cgroup version with unified keys.
const unifiedHierarchy = 2

// checkHierarchy refuses limits that are files of cgroup v2 if the node has v1. It accepts values that limit nothing,
// and memory.swap.max, which the engine applies.
func checkHierarchy(field string, r *runtimeapi.LinuxContainerResources, f docker.Features) error {
	if f.CgroupVersion >= unifiedHierarchy {
		return nil
	}
	for _, file := range CgroupFiles(r, true) {
		if !file.Optional {
			return unsupported(field, "%s is a file of cgroup v2, and this node has v1", file.Name)
		}
	}
	return nil
}

// checkUnifiedKey accepts a file of a controller, such as memory.high. It refuses the cgroup.* files, which are no
// limits: they move and kill processes.
func checkUnifiedKey(field, key string) error {
	if err := checkFileWord(field, key); err != nil {
		return err
	}
	controller, file, _ := strings.Cut(key, ".")
	if controller == "" || file == "" || controller == "cgroup" {
		return invalid(field, "%q is not the file of a controller, such as memory.high", key)
	}
	return nil
}

// checkFileWord accepts a word of the characters in cgroup file names.
func checkFileWord(field, word string) error {
	if word == "" {
		return invalid(field, "is empty")
	}
	for i := range len(word) {
		if c := word[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return invalid(field, "%q is not the name of a cgroup file", word)
		}
	}
	return nil
}
