package logs

import "slices"

// passing is which of the next entries are passed over, because the CRI log has them. The zero value passes over none.
type passing struct {
	// until is the time of the last entry of the CRI log, 0 for none, and younger are the times of entries in front of
	// it that are greater: two streams may be out of the order of their times.
	until   int64
	younger []int64
	// elsewhere says that the last entry is in another file than the one that is written: it is passed over, too.
	// Otherwise the first of its time ends the passing, and what comes from there on is compared.
	elsewhere bool
	// met says that the last entry was among those that were looked at. Elsewhere the passing goes on until an entry
	// with another time: all pieces of a line have one.
	met bool
}

// covers reports whether an entry is passed over. The entries come in the order of the engine's log.
func (p *passing) covers(e *entry) bool {
	switch {
	case p.until == 0:
		return false
	case p.met && e.unixNano != p.until: // behind the last entry, though its time may be before
		p.until = 0
		return false
	case e.unixNano == p.until:
		p.met = true
		if !p.elsewhere {
			p.until = 0
		}
		return p.elsewhere
	case e.unixNano < p.until || slices.Contains(p.younger, e.unixNano):
		return true
	default: // behind the last entry, which the engine may have dropped
		p.until = 0
		return false
	}
}
