package cgroup

import (
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/internal/hugepages"
	"github.com/criadapter/criadapter/kubelet/meminfo"
)

// defaultMount is the mount point of cgroups.
const defaultMount = "/sys/fs/cgroup"

// Host is the machine's capacity, and the features of its cgroups.
type Host struct {
	// Unified says that the machine has cgroup v2. Swap says that swap can be limited.
	Unified, Swap bool
	// Memory and SwapTotal are in bytes.
	Memory, SwapTotal int64
	CPUs              int
	// HugepageSizes are the kernel's huge page sizes, in bytes.
	HugepageSizes []int64
}

// Inspect reads this machine's memory, CPUs, huge page sizes and cgroup features.
func Inspect() (Host, error) {
	amounts, err := meminfo.Read("/proc/meminfo")
	if err != nil {
		return Host{}, err
	}
	pages, _ := hugepages.Sizes("/") // an unreadable directory counts as no huge pages
	host := Host{Unified: unified(defaultMount), Memory: amounts["MemTotal"], SwapTotal: amounts["SwapTotal"],
		CPUs: runtime.NumCPU(), HugepageSizes: pages}
	host.Swap = swapLimited(defaultMount, host.Unified)
	return host, nil
}

// Capacity returns the machine's CPUs and memory as a v1.ResourceList.
func (h Host) Capacity() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(h.CPUs), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(h.Memory, resource.BinarySI),
	}
}

func unified(mount string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(mount, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// swapLimited checks for the kernel's file with the swap limit. In cgroup v2 the root cgroup has none, so it checks the
// cgroups below the mount, too. In a container the root of the mount is an inner cgroup, which has the file itself.
func swapLimited(mount string, unified bool) bool {
	patterns := []string{"memory/memory.memsw.limit_in_bytes"}
	if unified {
		patterns = []string{"memory.swap.max", "*/memory.swap.max"}
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		found, err := filepath.Glob(filepath.Join(mount, pattern))
		return err == nil && len(found) > 0
	})
}
