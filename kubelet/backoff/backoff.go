// Package backoff keeps the pauses after crashes of containers and failed pulls, which double with each failure. The
// kubelet uses flowcontrol.Backoff of k8s.io/client-go/util. That type cannot return the rest of a pause, which sets
// the time of the next sync. It cannot return the time of the last failure, which shows that a pull is in back-off. It
// cannot forget all keys of a pod at once.
package backoff

import (
	"cmp"
	"maps"
	"sync"
	"time"
)

// Options are the pauses. The zero value is the kubelet's: 10 seconds, doubling up to 5 minutes.
type Options struct {
	// First is the pause after the first failure, Max the longest one.
	First, Max time.Duration
}

// Backoff keeps one pause per key. It is safe for concurrent use.
type Backoff struct {
	opts Options

	mu      sync.Mutex
	entries map[string]entry
}

type entry struct {
	pause  time.Duration
	update time.Time
	// failed is the time of failure in the last call of Remaining. seen is the time of the first call with that
	// failure.
	failed, seen time.Time
}

// New makes a Backoff without failures.
func New(opts Options) *Backoff {
	opts.First = cmp.Or(opts.First, 10*time.Second)
	opts.Max = cmp.Or(opts.Max, max(5*time.Minute, opts.First))
	opts.First = min(opts.First, opts.Max)
	return &Backoff{opts: opts, entries: map[string]entry{}}
}

// Remaining is the rest of key's pause after a failure at the given time; 0 if it is over.
func (b *Backoff) Remaining(key string, failed time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[key]
	if !ok || b.expired(e, failed) {
		return 0
	}
	if !failed.Equal(e.failed) {
		e.failed, e.seen = failed, time.Now()
		b.entries[key] = e
	}
	// The clock may have been set back after the failure. seen is not affected, because it has a monotonic time.
	return max(0, e.pause-max(time.Since(failed), time.Since(e.seen)))
}

// Pause is key's pause after its last failure; 0 without one.
func (b *Backoff) Pause(key string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[key].pause
}

// Fail counts a failure of key at the given time. That doubles its pause.
func (b *Backoff) Fail(key string, failed time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[key]
	if !ok || b.expired(e, failed) {
		e.pause = b.opts.First
	} else {
		e.pause = min(2*e.pause, b.opts.Max)
	}
	e.update = time.Now()
	b.entries[key] = e
}

// expired says that more than twice the longest pause lies between the last call of Fail and a new failure. Earlier
// failures then no longer count.
func (b *Backoff) expired(e entry, failed time.Time) bool {
	return failed.Sub(e.update) > 2*b.opts.Max
}

// Failed is the time of the last call of Fail for key, the zero time without one.
func (b *Backoff) Failed(key string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[key].update
}

// Forget drops keys that match.
func (b *Backoff) Forget(match func(key string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.entries, func(key string, _ entry) bool { return match(key) })
}
