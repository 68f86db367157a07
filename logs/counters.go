package logs

import "sync/atomic"

// Counters count losses in the engine's files since the Service was made, over all containers. They only grow.
type Counters struct {
	// Gaps is how often the engine had dropped unread output. Each gap has a line in the CRI log.
	Gaps uint64
	// MissingBytes and MissingEntries estimate the size of the gaps, in bytes of the engine's files and in entries of
	// the CRI log.
	MissingBytes, MissingEntries uint64
	// DamagedBytes is the number of bytes of the engine's files that were skipped because they are not whole records.
	DamagedBytes uint64
}

// counters are the source of Counters.
type counters struct {
	gaps, missingBytes, missingEntries, damaged atomic.Uint64
}

// Counters returns the present counters.
func (s *Service) Counters() Counters {
	return Counters{
		Gaps:           s.counters.gaps.Load(),
		MissingBytes:   s.counters.missingBytes.Load(),
		MissingEntries: s.counters.missingEntries.Load(),
		DamagedBytes:   s.counters.damaged.Load(),
	}
}
