package state

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// number is a list entry, ordered by n.
type number struct{ n int }

func compareNumbers(a, b *number) int { return cmp.Compare(a.n, b.n) }

// TestOrderedIsASortedSlice changes a list of many blocks and a plain slice alike: at both ends, in the middle and at
// random, until both are empty.
func TestOrderedIsASortedSlice(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var list ordered[number]
	var plain []*number
	changes := 0
	change := func(old, entry *number) {
		t.Helper()
		before, entries := list, list.all()
		next, ok := list.with(old, entry, compareNumbers)
		testutil.Require(t, ok, "the list is damaged")
		list = next
		plain = slices.Clone(plain)
		if old != nil {
			plain = slices.DeleteFunc(plain, func(other *number) bool { return other == old })
		}
		if entry != nil {
			i, _ := slices.BinarySearchFunc(plain, entry, compareNumbers)
			plain = slices.Insert(plain, i, entry)
		}
		testutil.Require(t, slices.Equal(before.all(), entries), "the change altered the old list")
		if changes++; changes%16 == 0 || len(plain) < 3 { // it takes some time
			wantOrdered(t, list, plain)
		}
	}
	for i := range blockSize { // newest first, oldest first, anywhere
		for _, n := range []int{1_000_000 + i, -i - 1, 1000 + random.IntN(900_000)*2} {
			if entry := (&number{n}); !slices.ContainsFunc(plain, func(o *number) bool { return o.n == n }) {
				change(nil, entry)
			}
		}
	}
	for range 200 {
		old := plain[random.IntN(len(plain))]
		change(old, &number{old.n}) // the same place
		old = plain[random.IntN(len(plain))]
		change(old, &number{1001 + random.IntN(900_000)*2}) // odd numbers are free
	}
	for len(plain) > 0 {
		change(plain[0], nil)
		if len(plain) > 0 {
			change(plain[random.IntN(len(plain))], nil)
		}
	}
}

// wantOrdered checks a list's entries, its blocks, and searches at the ends of its blocks.
func wantOrdered(t *testing.T, list ordered[number], want []*number) {
	t.Helper()
	testutil.Require(t, slices.Equal(list.all(), want) && list.size == len(want),
		"the list has %d entries and size %d, want %d", len(list.all()), list.size, len(want))
	for _, block := range list.blocks {
		testutil.Require(t, len(block) > 0 && len(block) <= blockSize, "a block has %d entries", len(block))
		first, last := block[0].n, block[len(block)-1].n
		between := list.equal(func(o *number) int {
			switch {
			case o.n < first:
				return -1
			case o.n > last+1:
				return 1
			default:
				return 0
			}
		})
		i, _ := slices.BinarySearchFunc(want, block[0], compareNumbers)
		end, found := slices.BinarySearchFunc(want, &number{last + 1}, compareNumbers)
		if found {
			end++
		}
		testutil.Require(t, slices.Equal(between, want[i:end]), "entries from %d to %d: %d, want %d", first, last+1,
			len(between), end-i)
		at := list.from(func(o *number) int { return cmp.Compare(o.n, last) })
		next := list.at(list.after(at))
		testutil.Require(t, next == nil && end == len(want) || next != nil && next.n > last, "after %d comes %v", last,
			next)
	}
}

// TestDamagedOrdered removes an entry that the list lacks, and adds one that is equal to another. Both fail.
func TestDamagedOrdered(t *testing.T) {
	var sorted []*number
	for i := range 2 * blockSize {
		sorted = append(sorted, &number{i})
	}
	list := orderedOf(sorted)
	wantOrdered(t, list, sorted)
	_, ok := list.with(&number{7}, nil, compareNumbers)
	testutil.Assert(t, !ok, "an entry that is equal to another one was removed in its place")
	_, ok = list.with(nil, &number{7}, compareNumbers)
	testutil.Assert(t, !ok, "two entries have one place")
}
