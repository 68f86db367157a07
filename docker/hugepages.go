package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// limitedHugePages returns the sizes of huge pages that the controller hugetlb limits, as
// its files name them: 2MB, 1GB. It returns none where the controller is not in use.
func limitedHugePages(root string, cgroupVersion int) []string {
	if !hasHugetlb(root, cgroupVersion) {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(root, "sys/kernel/mm/hugepages")) // missing without huge pages
	var sizes []string
	for _, entry := range entries {
		text := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), "hugepages-"), "kB")
		if kilobytes, err := strconv.ParseUint(text, 10, 64); err == nil {
			sizes = append(sizes, pageSize(kilobytes))
		}
	}
	slices.Sort(sizes)
	return sizes
}

// hasHugetlb reports whether the controller is mounted (v1), or available at the root (v2).
func hasHugetlb(root string, cgroupVersion int) bool {
	const controller = "hugetlb"
	if cgroupVersion >= 2 {
		text, _ := os.ReadFile(filepath.Join(root, "sys/fs/cgroup/cgroup.controllers"))
		return slices.Contains(strings.Fields(string(text)), controller)
	}
	text, _ := os.ReadFile(filepath.Join(root, "proc/cgroups"))
	for line := range strings.Lines(string(text)) {
		// The fields are the name, the id of the hierarchy, the number of cgroups, and whether it is enabled.
		if words := strings.Fields(line); len(words) == 4 && words[0] == controller {
			return words[1] != "0" && words[3] == "1"
		}
	}
	return false
}

// pageSize writes a size as the kernel's hugetlb_cgroup does.
func pageSize(kilobytes uint64) string {
	switch {
	case kilobytes >= 1<<20:
		return fmt.Sprintf("%dGB", kilobytes>>20)
	case kilobytes >= 1<<10:
		return fmt.Sprintf("%dMB", kilobytes>>10)
	default:
		return fmt.Sprintf("%dKB", kilobytes)
	}
}
