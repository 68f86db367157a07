package stats

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// hugePagesDir has one directory per size of huge pages.
const hugePagesDir = "/sys/kernel/mm/hugepages"

// hugetlbStats are the use of huge pages of one size, in bytes.
type hugetlbStats struct {
	// pageSize is the size in the names of the cgroup's files, "2MB".
	pageSize string
	usage    uint64
	// peak is nil with cgroup v2, which does not record it.
	peak *uint64
	// failures counts hits of the limit.
	failures *uint64
}

// hugePageSizes returns the sizes of huge pages below a directory such as hugePagesDir. It returns none if the kernel
// has no huge pages.
func hugePageSizes(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var sizes []string
	for _, entry := range entries {
		text, ok := strings.CutPrefix(entry.Name(), "hugepages-")
		if !ok {
			continue
		}
		if kib, err := strconv.ParseUint(strings.TrimSuffix(text, "kB"), 10, 64); err == nil {
			sizes = append(sizes, pageSizeName(kib))
		}
	}
	return sizes
}

// pageSizeName returns a size of huge pages as in the names of cgroup files.
func pageSizeName(kib uint64) string {
	switch {
	case kib >= 1<<20:
		return strconv.FormatUint(kib>>20, 10) + "GB"
	case kib >= 1<<10:
		return strconv.FormatUint(kib>>10, 10) + "MB"
	default:
		return strconv.FormatUint(kib, 10) + "KB"
	}
}

// hugetlbStats reads the use of huge pages. It returns none without the controller.
func (g *cgroup) hugetlbStats(r *reader, pageSizes []string) []hugetlbStats {
	dir, current := g.hugetlb, ".usage_in_bytes"
	if g.v2 {
		dir, current = g.unified, ".current"
	}
	if dir == "" {
		return nil
	}
	var all []hugetlbStats
	for _, size := range pageSizes {
		file := filepath.Join(dir, "hugetlb."+size)
		usage, err := r.value(file + current)
		if err != nil {
			continue
		}
		s := hugetlbStats{pageSize: size, usage: usage}
		if g.v2 {
			s.failures = keyed(r, file+".events", "max")
		} else {
			s.peak = optional(r, file+".max_usage_in_bytes")
			s.failures = optional(r, file+".failcnt")
		}
		all = append(all, s)
	}
	return all
}
