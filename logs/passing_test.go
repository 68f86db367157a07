package logs

import (
	"fmt"
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
		"until the last": {passing{last: 3}, []int64{1, 2, 3, 3, 2},
			[]bool{true, true, false, false, false}},
		"the last was dropped": {passing{last: 3}, []int64{1, 4, 2}, []bool{true, false, false}},
		"younger in front": {passing{last: 3, younger: []int64{5}}, []int64{5, 3, 5},
			[]bool{true, false, false}},
		"elsewhere": {passing{last: 3, otherFile: true}, []int64{1, 3, 3, 4, 3},
			[]bool{true, true, true, false, false}},
		"elsewhere, out of order": {passing{last: 3, otherFile: true}, []int64{1, 3, 2, 4},
			[]bool{true, true, false, false}},
		"elsewhere, younger comes after": {passing{last: 3, younger: []int64{5}, otherFile: true}, []int64{5, 3, 5},
			[]bool{true, true, false}},
		"elsewhere, last was dropped": {passing{last: 3, otherFile: true}, []int64{2, 4, 2},
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

// Another program can change the log between two reads, so the text may end with an unfinished line.
func TestLastRunOfAnUnfinishedLine(t *testing.T) {
	const text = "1970-01-01T00:00:00.000000002Z stdout F a\n1970-01-01"
	searched := testutil.Go(func() error {
		if place, _, _ := lastRun([]byte(text), 3, true); place != len(text) {
			return fmt.Errorf("the place is %d", place)
		}
		return nil
	})
	testutil.Must(t, testutil.Receive(t, searched, "lastRun does not end"))
}
