package state

import (
	"cmp"
	"slices"
)

// table has the entries of one kind: byID says which there are, and everything else is derived from it. A table is
// never changed, only copied.
type table[T any] struct {
	byID ordered[T]
	// views hold the entries of byID, each once, in the orders of kind.views.
	views [maxViews]ordered[T]
}

// maxViews is the number of orders that a kind can have.
const maxViews = 4

// kind is what a table has to know of its entries.
type kind[T any] struct {
	id func(*T) string
	// views are the orders in which lists are kept ready. An order finds no two entries equal and compares only what
	// has one order: text, numbers, and times without a monotonic reading.
	views []func(a, b *T) int
}

// find returns the place of an id in byID, and its entry, nil for none.
func (t *table[T]) find(k *kind[T], id string) (int, *T) {
	i, found := slices.BinarySearchFunc(t.byID, id, func(entry *T, id string) int { return cmp.Compare(k.id(entry), id) })
	if !found {
		return i, nil
	}
	return i, t.byID[i]
}

// with returns the table after a write: entry is what the id is now, nil for nothing. A view that does not have just
// what byID had before is made anew, so that no damage outlives a write.
func (t *table[T]) with(k *kind[T], id string, entry *T) table[T] {
	i, old := t.find(k, id)
	if old == entry {
		return *t
	}
	next := table[T]{byID: t.byID.replaced(i, old != nil, entry)}
	for v, order := range k.views {
		view, ok := t.views[v].with(old, entry, order)
		if !ok || len(view) != len(next.byID) {
			view = slices.SortedFunc(slices.Values(next.byID), order)
		}
		next.views[v] = view
	}
	return next
}
