package main

import (
	"bytes"
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
		leg  leg
		opts testOptions
		code int
		says string
	}{
		"another engine": {leg{target: target{Variant: engine.Variant{Name: "other"}}, several: true,
			tests: passed}, all, 0, "\nOn other:\n\n1 passed"},
		"its failure": {leg{target: target{Variant: engine.Variant{Name: "other"}}, several: true,
			tests: failed}, all, 1, "failed: room TestF"},
		"nothing beside others": {leg{target: target{Variant: engine.Variant{Name: "other"}}, several: true}, all, 0,
			""},
		"nothing at all": {leg{target: target{Variant: engine.Variant{Name: "other"}}}, all, 1,
			"no test passed"},
		"a stale skip": {leg{target: target{Variant: engine.Variant{Name: engine.Installed}}, tests: passed},
			all, 1, "not skipped: room TestS"},
		"a part of the tests": {leg{target: target{Variant: engine.Variant{Name: engine.Installed}}, tests: passed},
			testOptions{run: "TestP"}, 0, "1 passed"},
	} {
		var out bytes.Buffer
		if code := c.leg.verdict(&out, skips, c.opts); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit code %d, said %q; want %d, %q", name, code, out.String(), c.code, c.says)
		}
	}
}

func TestCachedOnlySaysWhatIsLeftOut(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	both, err := targets("installed,29-containerd", "", "")
	testutil.Must(t, err)
	var out bytes.Buffer
	got, err := cachedOnly(&out, both)
	if err != nil || len(got) != 1 || got[0].Name != engine.Installed ||
		!strings.Contains(out.String(), "tests on 29-containerd skipped") {
		t.Errorf("left %v, %v, and said %q", got, err, out.String())
	}
}
