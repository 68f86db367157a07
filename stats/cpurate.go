package stats

import "time"

const (
	// minWindow is the shortest time between the two samples that cpuRate keeps, because the kernel updates counts at
	// its ticks.
	minWindow = 500 * time.Millisecond
	// maxWindow is the longest time over which a rate still shows the present load.
	maxWindow = time.Minute
	// quickWindow is the time between the two samples of a call without an earlier sample.
	quickWindow = 100 * time.Millisecond
)

// cpuSample is the CPU time in nanoseconds since the start, at one moment.
type cpuSample struct {
	taken time.Time
	usage uint64
}

// cpuRate computes nano cores from samples. It keeps the last two that are at least minWindow apart, so that clients
// that ask in turn do not shorten each other's window.
type cpuRate struct {
	older, newer cpuSample
}

// next adds a sample and returns the nano cores since an earlier one. It returns false if the earlier sample is too
// recent or too old, or if the cgroup was created anew meanwhile.
func (r *cpuRate) next(now cpuSample) (uint64, bool) {
	base := r.newer
	if now.taken.Sub(base.taken) < minWindow && r.older.comparable(now) {
		base = r.older
	}
	if !base.comparable(now) {
		*r = cpuRate{newer: now}
		return 0, false
	}
	if now.taken.Sub(base.taken) < quickWindow {
		return 0, false
	}
	if now.taken.Sub(r.newer.taken) >= minWindow {
		r.older, r.newer = r.newer, now
	}
	elapsed := uint64(now.taken.Sub(base.taken))
	return uint64(float64(now.usage-base.usage) * float64(time.Second) / float64(elapsed)), true
}

// begin makes the start of a container its first sample, with a CPU time of 0.
func (r *cpuRate) begin(started time.Time) {
	if r.newer.taken.IsZero() && !started.IsZero() {
		r.newer = cpuSample{taken: started}
	}
}

// comparable reports whether s and now give a rate.
func (s cpuSample) comparable(now cpuSample) bool {
	age := now.taken.Sub(s.taken)
	return !s.taken.IsZero() && age > 0 && age <= maxWindow && s.usage <= now.usage
}
