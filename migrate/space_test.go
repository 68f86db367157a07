package migrate

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestGrant(t *testing.T) {
	const gib = 1 << 30
	for name, tc := range map[string]struct {
		space space
		limit int64
		kept  []int64
		want  []int64
	}{
		"as much as there is": {space{total: 100 * gib, free: 90 * gib}, gib, []int64{5, 10}, []int64{5, 10}},
		"the limit counts for each": {space{total: 100 * gib, free: 90 * gib}, 7, []int64{5, 10, 20},
			[]int64{5, 7, 7}},
		"no history is wanted":       {space{total: 100 * gib, free: 90 * gib}, 0, []int64{5, 10}, []int64{0, 0}},
		"less room than wanted":      {space{total: 100, free: 50}, gib, []int64{40, 20}, []int64{20, 10}},
		"a disk that is nearly full": {space{total: 100, free: 20}, gib, []int64{40, 20}, []int64{0, 0}},
		"no log":                     {space{total: 100, free: 20}, gib, nil, nil},
	} {
		var logs []*logPlan
		for _, kept := range tc.kept {
			logs = append(logs, &logPlan{kept: kept})
		}
		tc.space.grant(logs, tc.limit)
		for i, want := range tc.want {
			testutil.Assert(t, logs[i].history == want, "%s: log %d gets %d, want %d", name, i, logs[i].history, want)
		}
	}
}
