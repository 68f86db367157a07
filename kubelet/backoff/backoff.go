// Package backoff counts how often something failed and says how long to wait before it is tried again: the pauses of
// crashed containers and failed pulls, for which the kubelet uses flowcontrol.Backoff of k8s.io/client-go/util. That
// does not fit here: it says whether a pause is over but not how much of it remains, by which a sync plans the next
// one; not when a key was counted last, by which a pull is shown as in back-off; and it forgets single keys alone, not
// all of a pod.
package backoff

import (
	"sync"
	"time"
)

// Options say how long. The zero value is the kubelet's: 10 seconds, doubling up to 5 minutes.
type Options struct {
	// First is the pause after the first failure, Max the longest one.
	First, Max time.Duration
}

// Backoff keeps one pause per key. It is safe for concurrent use.
type Backoff struct {
	opts Options
	now  func() time.Time

	mu      sync.Mutex
	entries map[string]entry
}

type entry struct {
	pause  time.Duration
	update time.Time
}

// New makes a Backoff without failures.
func New(opts Options) *Backoff {
	if opts.First == 0 {
		opts.First = 10 * time.Second
	}
	if opts.Max == 0 {
		opts.Max = max(5*time.Minute, opts.First)
	}
	return &Backoff{opts: opts, now: time.Now, entries: map[string]entry{}}
}

// Remaining says how long key has to wait yet since it failed at the given time; zero is not at all.
func (b *Backoff) Remaining(key string, failed time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[key]
	if !ok || b.expired(e, failed) {
		return 0
	}
	return max(0, e.pause-b.now().Sub(failed))
}

// Fail counts a failure of key at the given time: the next pause is twice as long as the one before.
func (b *Backoff) Fail(key string, failed time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[key]
	if !ok || b.expired(e, failed) {
		e.pause = b.opts.First
	} else {
		e.pause = min(2*e.pause, b.opts.Max)
	}
	e.update = b.now()
	b.entries[key] = e
}

// expired is true for what ran well for twice the longest pause: its failures are forgotten.
func (b *Backoff) expired(e entry, failed time.Time) bool {
	return failed.Sub(e.update) > 2*b.opts.Max
}

// Failed is when key was counted last, the zero time for never.
func (b *Backoff) Failed(key string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[key].update
}

// Forget drops keys that match.
func (b *Backoff) Forget(match func(key string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.entries {
		if match(key) {
			delete(b.entries, key)
		}
	}
}
