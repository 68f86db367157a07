package translate

import (
	"maps"
	"slices"
	"strconv"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// HugetlbController is the controller of cgroup v1 whose files CgroupFiles names.
const HugetlbController = "hugetlb"

// CgroupFile is a file in a container's cgroup, with the value to write.
type CgroupFile struct {
	Name, Value string
	// Field is the request's field that set the limit, relative to its resources.
	Field string
	// Optional says that a missing file is not an error: a kernel without the file needs no such limit.
	Optional bool
}

// CgroupFiles returns the limits for which the Docker API has no field, as cgroup files. On cgroup v2 (unified), the
// files are in the container's only cgroup. On cgroup v1, they are in its cgroup of the controller hugetlb, and there
// are no unified keys. The kubelet sends a limit for every size of huge pages of the node, and memory.high=max.
func CgroupFiles(r *runtimeapi.LinuxContainerResources, unified bool) []CgroupFile {
	var files []CgroupFile
	suffix := ".limit_in_bytes"
	if unified {
		suffix = ".max"
	}
	for i, limit := range r.GetHugepageLimits() {
		value := strconv.FormatUint(limit.GetLimit(), 10)
		// The limit applies to reserved pages as well as to used pages.
		for _, kind := range []string{"", ".rsvd"} {
			files = append(files, CgroupFile{
				Name:     "hugetlb." + limit.GetPageSize() + kind + suffix,
				Value:    value,
				Field:    item("hugepage_limits", i),
				Optional: true,
			})
		}
	}
	if !unified {
		return files
	}
	for _, key := range slices.Sorted(maps.Keys(r.GetUnified())) {
		if key == swapMaxKey && r.GetMemoryLimitInBytes() > 0 {
			continue // the engine sets it together with the memory, see memorySwap
		}
		value := r.GetUnified()[key]
		files = append(files, CgroupFile{
			Name:     key,
			Value:    value,
			Field:    "unified[" + key + "]",
			Optional: value == cgroupMax || key == swapMaxKey,
		})
	}
	return files
}
