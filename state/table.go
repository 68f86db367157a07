package state

import (
	"cmp"
	"slices"
)

// table has the entries of one kind. It is immutable: a write copies it.
type table[T any] struct {
	byID ordered[T]
	// views are derived from byID: its entries, each once, in the orders of kind.views.
	views [maxViews]ordered[T]
}

// maxViews is the largest number of orders of a kind.
const maxViews = 4

// kind describes the entries of a table.
type kind[T any] struct {
	id func(*T) string
	// views are the orders of the table's lists. An order never treats two different entries as equal. It compares
	// text, numbers, and times without a monotonic reading.
	views []func(a, b *T) int
}

// find returns the entry of an id, or nil.
func (t *table[T]) find(k *kind[T], id string) *T {
	entry := t.byID.at(t.byID.from(func(entry *T) int { return cmp.Compare(k.id(entry), id) }))
	if entry == nil || k.id(entry) != id {
		return nil
	}
	return entry
}

// with returns the table with entry as the id's entry, or without one if entry is nil. It sorts a view anew if the view
// does not match byID, so that a damaged view does not outlive a write.
func (t *table[T]) with(k *kind[T], id string, entry *T) table[T] {
	old := t.find(k, id)
	if old == entry {
		return *t
	}
	// byID.with cannot fail: an entry's id never changes, and find has just looked for its place.
	byID, _ := t.byID.with(old, entry, func(a, b *T) int { return cmp.Compare(k.id(a), k.id(b)) })
	next := table[T]{byID: byID}
	for v, order := range k.views {
		view, ok := t.views[v].with(old, entry, order)
		if !ok || view.size != byID.size {
			view = orderedOf(slices.SortedFunc(slices.Values(byID.all()), order))
		}
		next.views[v] = view
	}
	return next
}
