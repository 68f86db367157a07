package logs

import (
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPassing(t *testing.T) {
	for name, test := range map[string]struct {
		passing passing
		entries []int64 // their times
		passed  []bool
	}{
		"nothing": {passing{}, []int64{1, 2}, []bool{false, false}},
		"until the last": {passing{until: 3}, []int64{1, 2, 3, 3, 2},
			[]bool{true, true, false, false, false}},
		"the last was dropped": {passing{until: 3}, []int64{1, 4, 2}, []bool{true, false, false}},
		"younger in front": {passing{until: 3, younger: []int64{5}}, []int64{5, 3, 5},
			[]bool{true, false, false}},
		"elsewhere": {passing{until: 3, elsewhere: true}, []int64{1, 3, 3, 4, 3},
			[]bool{true, true, true, false, false}},
		"elsewhere, out of order": {passing{until: 3, elsewhere: true}, []int64{1, 3, 2, 4},
			[]bool{true, true, false, false}},
		"elsewhere, younger comes after": {passing{until: 3, younger: []int64{5}, elsewhere: true}, []int64{5, 3, 5},
			[]bool{true, true, false}},
		"elsewhere, last was dropped": {passing{until: 3, elsewhere: true}, []int64{2, 4, 2},
			[]bool{true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var passed []bool
			for _, at := range test.entries {
				passed = append(passed, test.passing.covers(&entry{unixNano: at}))
			}
			testutil.Assert(t, slices.Equal(passed, test.passed),
				"entries %v: skipped %v, want %v", test.entries, passed, test.passed)
		})
	}
}
