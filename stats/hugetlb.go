package stats

import "path/filepath"

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
