package state

import (
	"slices"
	"sort"
)

// ordered is an immutable list of entries, sorted by a comparison in which no two entries are equal. Its entries are in
// blocks. A change copies one block and the list of blocks, so the number of entries hardly matters.
type ordered[T any] struct {
	// blocks are never empty.
	blocks [][]*T
	size   int
}

// blockSize is the largest number of entries in a block. The lists of most nodes have one block, which is read without
// a copy.
const blockSize = 512

// place is the block of an entry, and the entry's index in the block. The end of the list is index 0 of the block after
// the last one.
type place struct{ block, index int }

// orderedOf returns a list of sorted entries.
func orderedOf[T any](sorted []*T) ordered[T] {
	o := ordered[T]{size: len(sorted)}
	for block := range slices.Chunk(sorted, blockSize/2) {
		o.blocks = append(o.blocks, slices.Clone(block))
	}
	return o
}

// all returns all entries. The caller must not change the slice.
func (o ordered[T]) all() []*T { return o.between(place{}, place{block: len(o.blocks)}) }

// from returns the place of the first entry for which compare is not negative. compare must rise along the order.
func (o ordered[T]) from(compare func(*T) int) place {
	b := sort.Search(len(o.blocks), func(b int) bool { return compare(o.blocks[b][len(o.blocks[b])-1]) >= 0 })
	if b == len(o.blocks) {
		return place{block: b}
	}
	return place{b, sort.Search(len(o.blocks[b]), func(i int) bool { return compare(o.blocks[b][i]) >= 0 })}
}

// at returns the entry at a place, nil after the last entry.
func (o ordered[T]) at(p place) *T {
	if p.block == len(o.blocks) {
		return nil
	}
	return o.blocks[p.block][p.index]
}

// after returns the place after an entry's place.
func (o ordered[T]) after(p place) place {
	if p.index+1 < len(o.blocks[p.block]) {
		return place{p.block, p.index + 1}
	}
	return place{block: p.block + 1}
}

// between returns the entries from a place to the one before end. The caller must not change the slice.
func (o ordered[T]) between(p, end place) []*T {
	switch {
	case p.block == end.block && p.index == end.index:
		return nil
	case p.block == end.block:
		return o.blocks[p.block][p.index:end.index:end.index]
	case p.block+1 == end.block && end.index == 0:
		return slices.Clip(o.blocks[p.block][p.index:])
	}
	parts := slices.Clone(o.blocks[p.block:min(end.block+1, len(o.blocks))])
	if end.block < len(o.blocks) {
		parts[len(parts)-1] = parts[len(parts)-1][:end.index]
	}
	parts[0] = parts[0][p.index:]
	return slices.Concat(parts...)
}

// equal returns the entries for which compare is zero. compare must rise along the order. The caller must not change
// the slice.
func (o ordered[T]) equal(compare func(*T) int) []*T {
	return o.between(o.from(compare), o.from(func(entry *T) int {
		if compare(entry) > 0 {
			return 0
		}
		return -1
	}))
}

// with returns the list after the removal of old and the insertion of entry. Either may be nil. It returns false if the
// list is damaged: old is not found, or another entry has the place of entry.
func (o ordered[T]) with(old, entry *T, order func(a, b *T) int) (ordered[T], bool) {
	next := o
	if old != nil {
		at := o.from(func(other *T) int { return order(other, old) })
		if o.at(at) != old {
			return ordered[T]{}, false
		}
		if entry != nil && order(old, entry) == 0 {
			return o.replaced(at, 1, entry), true
		}
		next = o.replaced(at, 1)
	}
	if entry == nil {
		return next, true
	}
	at := next.from(func(other *T) int { return order(other, entry) })
	if other := next.at(at); other != nil && order(other, entry) == 0 {
		return ordered[T]{}, false
	}
	return next.replaced(at, 0, entry), true
}

// replaced returns a list in which entries replace the n entries from p on, which are in one block.
func (o ordered[T]) replaced(p place, n int, entries ...*T) ordered[T] {
	if p.block == len(o.blocks) && p.block > 0 {
		p = place{p.block - 1, len(o.blocks[p.block-1])}
	}
	first, last := p.block, min(p.block+1, len(o.blocks)) // the blocks that are replaced
	block := slices.Concat(o.blocks[first:last]...)
	block = slices.Replace(block, p.index, p.index+n, entries...)
	if first > 0 && len(o.blocks[first-1])+len(block) <= blockSize/2 {
		first--
		block = slices.Concat(o.blocks[first], block)
	}
	var blocks [][]*T
	switch half := len(block) / 2; {
	case len(block) > blockSize:
		// One array for both halves would keep its entries in memory as long as either half is used.
		blocks = [][]*T{slices.Clone(block[:half]), slices.Clone(block[half:])}
	case len(block) > 0:
		blocks = [][]*T{block}
	}
	return ordered[T]{
		blocks: slices.Concat(o.blocks[:first], blocks, o.blocks[last:]),
		size:   o.size - n + len(entries),
	}
}
