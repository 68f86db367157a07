package stats

import "time"

const (
	// minWindow is the shortest time over which a rate means something: the
	// kernel brings counts up to date at its ticks.
	minWindow = 500 * time.Millisecond
	// maxWindow is the longest time over which a rate still says what is going on now.
	maxWindow = time.Minute
	// quickWindow is how long apart the two samples are of a call that has nothing to compare with.
	quickWindow = 100 * time.Millisecond
)

// cpuSample is the CPU time used since the start, in nanoseconds, at one moment.
type cpuSample struct {
	taken time.Time
	usage uint64
}

// cpuRate turns samples into nano cores. It keeps the last two that are at least minWindow apart, so that clients that
// ask in turn do not shorten each other's window.
type cpuRate struct {
	older, newer cpuSample
}

// next takes a sample and returns the nano cores since an earlier one. It is false when there is none to compare with:
// none that is recent, or the cgroup was made anew meanwhile.
func (r *cpuRate) next(now cpuSample) (uint64, bool) {
	base := r.newer
	if now.taken.Sub(base.taken) < minWindow && r.older.comparable(now) {
		base = r.older
	}
	if !base.comparable(now) {
		*r = cpuRate{newer: now}
		return 0, false
	}
	if now.taken.Sub(r.newer.taken) >= minWindow {
		r.older, r.newer = r.newer, now
	}
	elapsed := uint64(now.taken.Sub(base.taken))
	return uint64(float64(now.usage-base.usage) * float64(time.Second) / float64(elapsed)), true
}

// begin makes the start of a container, when it had used nothing, its first sample.
func (r *cpuRate) begin(started time.Time) {
	if r.newer.taken.IsZero() && !started.IsZero() {
		r.newer = cpuSample{taken: started}
	}
}

// comparable reports whether a rate can be taken from s to now.
func (s cpuSample) comparable(now cpuSample) bool {
	age := now.taken.Sub(s.taken)
	return !s.taken.IsZero() && age > 0 && age <= maxWindow && s.usage <= now.usage
}
