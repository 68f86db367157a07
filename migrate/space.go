package migrate

// minFree is which part of a file system the conversion of logs leaves free: a kubelet begins to evict pods at a tenth,
// and to delete images at 15 %.
const minFree = 0.2

// space is a file system, in bytes.
type space struct {
	total, free int64
}

// grant bounds how much history is converted: of each log at most limit, of all together what the file system can
// take. Where that is not enough each gets the same part of what it wants.
func (s space) grant(logs []*logPlan, limit int64) {
	var wanted int64
	for _, l := range logs {
		l.history = min(l.kept, limit)
		wanted += l.history
	}
	room := max(0, s.free-int64(minFree*float64(s.total)))
	if wanted <= room {
		return
	}
	part := float64(room) / float64(wanted)
	for _, l := range logs {
		l.history, l.crowded = int64(part*float64(l.history)), l.history > 0
	}
}
