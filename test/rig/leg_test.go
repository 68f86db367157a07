package main

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/results"
)

// Each engine is judged by itself. A failure on one engine counts although another engine passes. Only the leg with all
// tests is checked for stale entries in the list of skips.
func TestVerdictOfLegs(t *testing.T) {
	skips, err := results.ParseSkips(strings.NewReader("room TestS # reason"))
	testutil.Must(t, err)
	t.Setenv("CI", "true")
	passed := []results.Test{{Package: "room", Name: "TestP", Outcome: results.Pass}}
	failed := []results.Test{{Package: "room", Name: "TestF", Outcome: results.Fail}}
	all := testOptions{packages: []string{"./..."}}
	for name, c := range map[string]struct {
		leg  *leg
		opts testOptions
		code int
		says string
	}{
		"another engine": {&leg{target: target{Variant: engine.Variant{Name: "other"}}, several: true,
			tests: passed}, all, 0, "\nOn other:\n\n1 passed"},
		"its failure": {&leg{target: target{Variant: engine.Variant{Name: "other"}}, several: true,
			tests: failed}, all, 1, "failed: room TestF"},
		"nothing beside others": {&leg{target: target{Variant: engine.Variant{Name: "other"}}, several: true}, all, 0,
			""},
		"nothing at all": {&leg{target: target{Variant: engine.Variant{Name: "other"}}}, all, 1,
			"no test passed"},
		"a stale skip": {&leg{target: target{Variant: engine.Variant{Name: engine.Installed}}, tests: passed},
			all, 1, "not skipped: room TestS"},
		"a part of the tests": {&leg{target: target{Variant: engine.Variant{Name: engine.Installed}}, tests: passed},
			testOptions{run: "TestP"}, 0, "1 passed"},
	} {
		var out bytes.Buffer
		if code := c.leg.verdict(&out, skips, c.opts); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit code %d, said %q; want %d, %q", name, code, out.String(), c.code, c.says)
		}
	}
}

func TestReduceSaysWhatIsLeftOut(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for name, c := range map[string]struct {
		engines string
		slow    bool
		want    []string
		says    string
	}{
		"not cached":        {"installed,29-containerd", false, []string{engine.Installed}, "run make engines once"},
		"slow":              {"installed,29-containerd", true, []string{engine.Installed}, "this machine is slow"},
		"no other, slow":    {"installed", true, []string{engine.Installed}, ""},
		"asked for, slow":   {"/usr/sbin/dockerd", true, []string{"/usr/sbin/dockerd"}, ""},
		"not cached either": {"29-containerd", true, nil, "run make engines once"},
	} {
		all, err := targets(c.engines, "", "")
		testutil.Must(t, err)
		var out bytes.Buffer
		rest, err := reduce(&out, all, c.slow)
		testutil.Must(t, err)
		var got []string
		for _, v := range rest {
			got = append(got, v.Name)
		}
		testutil.Assert(t, slices.Equal(got, c.want) && strings.Contains(out.String(), c.says) &&
			(c.says == "") == (out.Len() == 0), "%s: left %v, and said %q", name, got, out.String())
	}
}

func TestBesideDependsOnTheMachine(t *testing.T) {
	usual, slow := testOptions{}.atOnce(1, false), testOptions{}.atOnce(1, true)
	testutil.Assert(t, usual == 2*slow && slow == runtime.NumCPU(), "%d packages at once, on a slow machine %d", usual,
		slow)
	testutil.Equal(t, testOptions{}.atOnce(1000, true), 1, "packages at once on one of many engines")
	testutil.Equal(t, testOptions{parallel: 3}.atOnce(1, true), 3, "packages at once with -p 3")
}
