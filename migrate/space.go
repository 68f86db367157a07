package migrate

// minFree is the part of a file system that the conversion of logs leaves free. A kubelet begins to delete images at
// 15 % of free space, and to evict pods at 10 %.
const minFree = 0.2

// space is the size of a file system, in bytes.
type space struct {
	total, free int64
}

// grant bounds the converted history: at most limit of each log, and in sum the free space beyond minFree. If that is
// not enough, each log gets the same fraction.
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
