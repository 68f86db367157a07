package migrate

import (
	"path/filepath"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/logs"
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

// A log directory that has vanished since the look must not hide the other pods.
func TestGrantWithoutALogDirectory(t *testing.T) {
	dir := t.TempDir()
	left := &podPlan{id: "left", logs: []*logPlan{{path: filepath.Join(dir, "0.log"), kept: 5}}}
	gone := &podPlan{id: "gone", logs: []*logPlan{{path: filepath.Join(dir, "0.log"), kept: 5},
		{path: filepath.Join(dir, "gone", "0.log"), kept: 5}}}
	plan := &Plan{pods: []*podPlan{gone, left}}
	(&Node{opts: Options{LogHistory: 1}}).grant(plan)
	testutil.Assert(t, len(plan.pods) == 1 && plan.pods[0] == left, "planned are %v", plan.pods)
	testutil.Assert(t, len(plan.left) == 1 && plan.left[0].id == "gone", "left out are %v", plan.left)
}

// A log of unknown size is not converted: it would not count against the free space.
func TestLogOfUnknownSizeStaysALink(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "file"), "")
	for engine, linked := range map[string]bool{"no-such-directory/c.log": true, "file/c.log": false} {
		inspect := &container.InspectResponse{LogPath: filepath.Join(dir, engine),
			Config: &container.Config{Labels: map[string]string{translate.LabelLogPath: filepath.Join(dir, "0.log")}}}
		testutil.Must(t, logs.Link(inspect.LogPath, dir, filepath.Join(dir, "0.log")))
		testutil.Equal(t, lookAtLog(t.Context(), inspect).linked, linked, "%s is a link to continue", engine)
	}
}
