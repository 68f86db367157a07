package logs

import "slices"

// passing decides which of the next entries are skipped, because the CRI log already has them. The zero value skips
// none.
type passing struct {
	// last is the time of the CRI log's last entry, in nanoseconds since 1970, 0 without an entry. younger has the
	// times of entries that stand before the last entry and are later than last, because two streams may be out of
	// order.
	last    int64
	younger []int64
	// otherFile says that the last entry is in another file than the present one. The follower then skips the last
	// entry, too. Otherwise the first entry with the time last ends the skipping, and later entries are compared.
	otherFile bool
	// met says that an entry with the time last was seen. If otherFile is set, the skipping ends with the next entry of
	// another time, because all pieces of a line have the same time.
	met bool
}

// covers reports whether an entry is skipped. The entries come in the order of the engine's log.
func (p *passing) covers(e *entry) bool {
	switch {
	case p.last == 0:
		return false
	case p.met && e.unixNano != p.last: // after the last entry, even if its time is earlier
		p.last = 0
		return false
	case e.unixNano == p.last:
		p.met = true
		if !p.otherFile {
			p.last = 0
		}
		return p.otherFile
	case e.unixNano < p.last || slices.Contains(p.younger, e.unixNano):
		return true
	default: // after the last entry, which the engine may have dropped
		p.last = 0
		return false
	}
}
