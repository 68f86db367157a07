package nri

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// wantUntil compares the difference of two snapshots with lines of type, id and pod.
func wantUntil(t *testing.T, before, now *state.Snapshot, want ...string) {
	t.Helper()
	var got []string
	for _, change := range knownOf(before).changesTo(knownOf(now)) {
		got = append(got, fmt.Sprintf("%v %s of %q", change.Type, change.ID, describePod(change.Pod).GetId()))
	}
	slices.Sort(got)
	testutil.Assert(t, slices.Equal(got, want), "the difference is %q, want %q", got, want)
}

// Only a pod that has run, or whose start failed, has an end.
func TestEndOfPod(t *testing.T) {
	cache := state.New(state.Options{})
	empty := cache.Snapshot()
	runs(cache, "runs")
	runs(cache, "ends")
	cache.PutPod(state.Pod{ID: "waits"})
	cache.PutPod(state.Pod{ID: "fails"})
	made := cache.Snapshot()
	wantUntil(t, empty, made)
	cache.EndPod("ends")
	cache.EndPod("fails")
	ended := cache.Snapshot()
	ends := []string{`stopped ends of "ends"`, `stopped fails of "fails"`}
	wantUntil(t, made, ended, ends...)
	wantUntil(t, empty, ended, ends...)
	wantUntil(t, ended, ended)
}

// The removal of a container without a known pod is reported, and its end is not.
func TestContainerOfUnknownPod(t *testing.T) {
	cache := state.New(state.Options{})
	runs(cache, "pod", "ends", "goes")
	runs(cache, "lost", "ends too", "goes too")
	cache.RemovePod("lost")
	before := cache.Snapshot()
	cache.UpdateContainer("ends", ended)
	cache.UpdateContainer("ends too", ended)
	cache.RemoveContainer("goes")
	cache.RemoveContainer("goes too")
	wantUntil(t, before, cache.Snapshot(), `deleted goes of "pod"`, `deleted goes too of ""`, `stopped ends of "pod"`,
		`stopped goes of "pod"`)
}

func TestMissing(t *testing.T) {
	cache := state.New(state.Options{})
	runs(cache, "pod", "stays", "goes")
	runs(cache, "pod that goes")
	before := knownOf(cache.Snapshot())
	cache.RemoveContainer("goes")
	cache.RemovePod("pod that goes")
	runs(cache, "new pod", "new container")
	got := before.missing(knownOf(cache.Snapshot()))
	want := map[string]bool{"goes": true, "pod that goes": true}
	testutil.Assert(t, maps.Equal(got, want), "missing are %v, want %v", got, want)
}
