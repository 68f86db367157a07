package docker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/internal/hugepages"
)

// limitedHugePages returns the sizes of huge pages that the controller hugetlb limits, in the spelling of its files:
// 2MB, 1GB. It returns none if the controller is not in use.
func limitedHugePages(root string, cgroupVersion int) []string {
	if !hasHugetlb(root, cgroupVersion) {
		return nil
	}
	return hugepages.Names(root)
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
