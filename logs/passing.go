package logs

import "slices"

// passing says which of the next entries are skipped, because the CRI log has them. The zero value skips none.
type passing struct {
	// until is the time of the last entry of the CRI log, 0 without one. younger are the later times of entries before
	// it: two streams may be out of order.
	until   int64
	younger []int64
	// elsewhere says that the last entry is in another file than the present one, and is skipped, too. Otherwise the
	// first entry with its time ends the passing, and later entries are compared.
	elsewhere bool
	// met says that the last entry was seen. If it is elsewhere, the passing ends with an entry of another time,
	// because all pieces of a line have one time.
	met bool
}

// covers reports whether an entry is skipped. The entries come in the order of the engine's log.
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
