package logs

import "sync/atomic"

// Counters say what was missing in the engine's files since the Service was made, over all containers. They only grow.
type Counters struct {
	// Gaps is how often the engine had dropped output before it was read. Each is marked by one line in the CRI log.
	Gaps uint64
	// MissingBytes and MissingEntries are estimates of what the gaps contained,
	// in bytes of the engine's files and in entries of the CRI log.
	MissingBytes, MissingEntries uint64
	// DamagedBytes is how many bytes of the engine's files were passed over because they held no whole record.
	DamagedBytes uint64
}

// counters are what Counters is read from.
type counters struct {
	gaps, missingBytes, missingEntries, damaged atomic.Uint64
}

// Counters returns the counters as they are now.
func (s *Service) Counters() Counters {
	return Counters{
		Gaps:           s.counters.gaps.Load(),
		MissingBytes:   s.counters.missingBytes.Load(),
		MissingEntries: s.counters.missingEntries.Load(),
		DamagedBytes:   s.counters.damaged.Load(),
	}
}
