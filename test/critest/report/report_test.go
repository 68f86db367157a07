package report

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

func parseSample(t *testing.T) []Spec {
	t.Helper()
	sample, err := os.Open(filepath.Join("testdata", "ginkgo.json"))
	testutil.Must(t, err)
	defer sample.Close()
	specs, err := ParseGinkgo(sample)
	testutil.Must(t, err)
	return specs
}

func TestParseGinkgo(t *testing.T) {
	want := []Spec{
		{Name: "pods start", Outcome: Passed},
		{Name: "pods networking map a port", Outcome: Failed, Message: "Timed out after 60s.\nExpected success"},
		{Name: "AppArmor enforce", Outcome: Skipped, Message: "AppArmor is disabled on this host"},
		{Name: "benchmark", Outcome: Skipped},
		{Name: "pods crash", Outcome: Failed, Message: "Test Panicked"},
	}
	got := parseSample(t)
	testutil.Assert(t, reflect.DeepEqual(got, want), "got %+v\nwant %+v", got, want)
}

func TestParseGinkgoRefuses(t *testing.T) {
	const spec = `{"LeafNodeType":"It","LeafNodeText":"a","State":"passed"}`
	for name, text := range map[string]string{
		"nothing":        ``,
		"cut off":        `[{"SpecReports":[`,
		"no suite":       `[]`,
		"two suites":     `[{"SpecReports":[` + spec + `]},{"SpecReports":[` + spec + `]}]`,
		"no specs":       `[{"SpecReports":[]}]`,
		"one name twice": `[{"SpecReports":[` + spec + `,` + spec + `]}]`,
		"set-up failed": `[{"SpecReports":[` + spec +
			`,{"LeafNodeType":"SynchronizedBeforeSuite","State":"failed"}]}]`,
		"clean-up crash": `[{"SpecReports":[` + spec + `,{"LeafNodeType":"AfterSuite","State":"panicked"}]}]`,
	} {
		specs, err := ParseGinkgo(strings.NewReader(text))
		testutil.Assert(t, err != nil, "%s: got %+v", name, specs)
	}
}

func TestParseExpectedRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no cause":        "- outcome: failed\n  specs: [a]",
		"blank cause":     "- cause: ' '\n  outcome: failed\n  specs: [a]",
		"no outcome":      "- cause: c\n  specs: [a]",
		"passed":          "- cause: c\n  outcome: passed\n  specs: [a]",
		"no specs":        "- cause: c\n  outcome: failed",
		"twice in one":    "- cause: c\n  outcome: failed\n  specs: [a, a]",
		"twice in two":    "- cause: c\n  outcome: failed\n  specs: [a]\n- cause: d\n  outcome: skipped\n  specs: [a]",
		"unknown field":   "- cause: c\n  outcome: failed\n  specs: [a]\n  until: never",
		"no range":        "- cause: c\n  outcome: failed\n  kubelet: '1.36'\n  specs: [a]",
		"no such cgroups": "- cause: c\n  outcome: failed\n  cgroupVersion: 3\n  specs: [a]",
		"no such suite":   "- cause: c\n  outcome: failed\n  suite: pods\n  specs: [a]",
		"no release":      "- cause: c\n  outcome: failed\n  kubelet: '<one'\n  specs: [a]",
		"not a list":      "cause: c",
		"broken document": "- [",
	} {
		expected, err := ParseExpected([]byte(text))
		testutil.Assert(t, err != nil, "%s: got %+v", name, expected)
	}
}

func TestJudge(t *testing.T) {
	specs := parseSample(t)
	tests := map[string]struct {
		expected    string
		unexplained []string
		stale       []Entry
	}{
		"all explained": {expected: `
- {cause: ports, outcome: failed, specs: [pods networking map a port, pods crash]}
- {cause: host, outcome: skipped, specs: [AppArmor enforce]}
- {cause: speed, outcome: skipped, specs: [benchmark]}`},
		"missing entries": {
			expected:    `[{cause: host, outcome: skipped, specs: [AppArmor enforce]}]`,
			unexplained: []string{"benchmark", "pods crash", "pods networking map a port"},
		},
		"stale: passes now, gone, ends otherwise": {
			expected: `
- {cause: ports, outcome: failed, specs: [pods networking map a port, pods start, no such, benchmark]}
- {cause: host, outcome: skipped, specs: [AppArmor enforce, pods crash]}`,
			unexplained: []string{"benchmark", "pods crash"},
			stale: []Entry{
				{Name: "benchmark", Want: Failed, Got: Skipped},
				{Name: "no such", Want: Failed},
				{Name: "pods crash", Want: Skipped, Got: Failed},
				{Name: "pods start", Want: Failed, Got: Passed},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expected, err := ParseExpected([]byte(test.expected))
			testutil.Must(t, err)
			v := Judge("critest", specs, expected)
			testutil.Assert(t, v.Passed == 1 && v.Failed == 2 && v.Skipped == 2,
				"counts: %d passed, %d failed, %d skipped", v.Passed, v.Failed, v.Skipped)
			var unexplained []string
			for _, spec := range v.Unexplained {
				unexplained = append(unexplained, spec.Name)
			}
			testutil.Assert(t, reflect.DeepEqual(unexplained, test.unexplained),
				"unexplained %q, want %q", unexplained, test.unexplained)
			testutil.Assert(t, reflect.DeepEqual(v.Stale, test.stale), "stale %v, want %v", v.Stale, test.stale)
			good := len(test.unexplained)+len(test.stale) == 0
			err = v.Err(len(specs))
			testutil.Assert(t, (err == nil) == good, "Err: %v", err)
			err = v.Err(len(specs) + 1)
			testutil.Assert(t, err != nil, "a missing spec is not an error")
		})
	}
}

func TestVerdictString(t *testing.T) {
	expected, err := ParseExpected([]byte(`
- {cause: ports do not work, outcome: failed, specs: [pods networking map a port, pods crash]}
- {cause: this host has none, outcome: skipped, specs: [AppArmor enforce]}`))
	testutil.Must(t, err)
	const want = `  2 failed: ports do not work
  1 skipped: this host has none
critest: 1 passed, 2 failed, 2 skipped
`
	got := Judge("critest", parseSample(t), expected).String()
	testutil.Assert(t, got == want, "got:\n%s\nwant:\n%s", got, want)
}

func FuzzParseGinkgo(f *testing.F) {
	f.Add(`[{"SpecReports":[{"ContainerHierarchyTexts":["a"],"LeafNodeType":"It","LeafNodeText":"b","State":"passed"}]}]`)
	f.Add(`[{"SpecReports":null}]`)
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := ParseGinkgo(strings.NewReader(text))
		if err != nil {
			return
		}
		v := Judge("critest", specs, nil)
		testutil.Assert(t, v.Total() == len(specs) && len(v.Unexplained) == v.Failed+v.Skipped,
			"%d specs judged as %+v", len(specs), v)
	})
}

func TestExpectedOnAnEngine(t *testing.T) {
	expected, err := ParseExpected(
		[]byte(
			"- {cause: a, outcome: skipped, specs: [x]}\n- {cause: b, outcome: skipped, belowAPI: \"1.44\", " +
				"specs: [y]}\n" +
				"- {cause: m, outcome: failed, withoutController: memory, specs: [z]}\n" +
				"- {cause: o, outcome: failed, withoutCapability: CAP_SYS_RESOURCE, specs: [w]}\n" +
				"- {cause: v, outcome: skipped, cgroupVersion: 1, specs: [v]}\n" +
				"- {cause: l, outcome: skipped, withoutAppArmor: true, specs: [l]}\n" +
				"- {cause: d, outcome: failed, withoutDummy: true, specs: [d]}\n" +
				"- {cause: r, outcome: skipped, withoutOCIRuntime: true, specs: [r]}\n" +
				"- {cause: s, outcome: failed, withSELinux: true, specs: [s]}\n"))
	testutil.Must(t, err)
	for api, want := range map[string]int{"1.41": 2, "1.43": 2, "1.44": 1, "1.100": 1} {
		got := expected.On(docker.Features{APIVersion: api, AppArmor: true},
			Machine{[]string{"cpu", "memory"}, []string{"CAP_SYS_RESOURCE"}, true, true})
		testutil.Assert(t, len(got) == want && got[0].Cause == "a", "API %s: %+v", api, got)
	}
	testutil.Assert(t, len(expected) == 9 && expected[1].Cause == "b", "the list itself is now %+v", expected)
	if got := expected.On(docker.Features{APIVersion: "1.44", CgroupVersion: 1, AppArmor: true},
		Machine{[]string{"memory"}, []string{"CAP_SYS_RESOURCE"}, true, true}); len(got) != 2 || got[1].Cause != "v" {
		t.Errorf("with cgroup v1: %v", got)
	}
	if got := expected.On(docker.Features{APIVersion: "1.44", AppArmor: true, SELinux: true},
		Machine{[]string{"memory"}, []string{"CAP_SYS_RESOURCE"}, true, true}); len(got) != 2 || got[1].Cause != "s" {
		t.Errorf("with SELinux: %v", got)
	}
	if got := expected.On(docker.Features{APIVersion: "1.44", CgroupVersion: 2},
		Machine{[]string{"memory"}, []string{"CAP_SYS_RESOURCE"}, true, true}); len(got) != 2 || got[1].Cause != "l" {
		t.Errorf("without AppArmor: %v", got)
	}
	if got := expected.On(docker.Features{APIVersion: "1.44", AppArmor: true},
		Machine{Controllers: []string{"cpu"}}); len(got) != 5 || got[1].Cause != "m" || got[2].Cause != "o" ||
		got[3].Cause != "d" || got[4].Cause != "r" {
		t.Errorf("without a memory controller, capabilities, dummy devices and criadapter-oci: %v", got)
	}
}

// Specs that do not run are not expected. A group without specs is dropped.
func TestExpectedWithout(t *testing.T) {
	all := Expected{{Cause: "c", Outcome: Failed, Specs: []string{"a", "b"}},
		{Cause: "d", Outcome: Skipped, Specs: []string{"e"}}}
	want := Expected{{Cause: "c", Outcome: Failed, Specs: []string{"b"}}}
	got := all.Without(map[string]bool{"a": true, "e": true})
	testutil.Assert(t, reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
	testutil.Assert(t, len(all[0].Specs) == 2, "the list itself changed: %+v", all)
}

// Ran is set for a spec that skipped itself, and not for a spec that the filter left out.
func TestParseGinkgoTellsWhatRan(t *testing.T) {
	specs, err := ParseGinkgo(strings.NewReader(`[{"SpecReports":[
		{"LeafNodeType":"It","LeafNodeText":"left out","State":"skipped"},
		{"LeafNodeType":"It","LeafNodeText":"skipped itself","State":"skipped","NumAttempts":1,"RunTime":2000000},
		{"LeafNodeType":"It","LeafNodeText":"passed in the end","State":"passed","NumAttempts":2}]}]`))
	testutil.Must(t, err)
	if specs[0].Ran || !specs[1].Ran || specs[1].Took != 2*time.Millisecond || specs[1].Again || !specs[2].Again {
		t.Errorf("got %+v", specs)
	}
}

// A spec that passed at its second try is named, so that a flaky spec is seen.
func TestVerdictNamesWhatPassedAgain(t *testing.T) {
	v := Judge("critest", []Spec{
		{Name: "flaky", Outcome: Passed, Again: true}, {Name: "broken", Outcome: Failed, Again: true},
		{Name: "sound", Outcome: Passed},
	}, nil)
	const want = "passed when it ran again: flaky\ncritest: 2 passed, 1 failed, 0 skipped\n"
	testutil.Equal(t, v.String(), want, "summary")
}

// A group with a range of releases applies only to kubelets of these releases, and to no other kind of kubelet.
func TestExpectedWithAKubelet(t *testing.T) {
	expected, err := ParseExpected(
		[]byte(
			"- {cause: all, outcome: failed, specs: [x]}\n- {cause: old, outcome: failed, kubelet: <1.36, specs: " +
				"[y]}\n" +
				"- {cause: new, outcome: skipped, kubelet: '>=1.100', specs: [z]}\n"))
	testutil.Must(t, err)
	for release, want := range map[string][]string{
		"1.9": {"all", "old"}, "1.35": {"all", "old"}, "1.36": {"all"}, "1.99": {"all"}, "1.100": {"all", "new"},
		"": {"all"},
	} {
		var got []string
		for _, group := range expected.WithKubelet(release) {
			got = append(got, group.Cause)
		}
		testutil.Assert(t, reflect.DeepEqual(got, want), "kubelet %q: %q, want %q", release, got, want)
	}
}

func TestExpectedOfASuite(t *testing.T) {
	all := Expected{{Cause: "both"}, {Cause: "node", Suite: NodeSuite}, {Cause: "cluster", Suite: ClusterSuite}}
	for suite, want := range map[string]Expected{NodeSuite: all[:2], ClusterSuite: {all[0], all[2]}} {
		got := all.OfSuite(suite)
		testutil.Assert(t, reflect.DeepEqual(got, want), "%s: got %+v, want %+v", suite, got, want)
	}
}

// Specs that a list leaves out are counted separately. An entry for a removed spec is stale.
func TestJudgeLeavesOut(t *testing.T) {
	expected, err := ParseExpected([]byte("- {cause: no such thing, outcome: left out, specs: [b, gone]}"))
	testutil.Must(t, err)
	got, want := expected.LeftOut(), []string{"b", "gone"}
	testutil.Assert(t, reflect.DeepEqual(got, want), "left out %q, want %q", got, want)
	v := Judge("conformance", []Spec{{Name: "a", Outcome: Passed}, {Name: "b", Outcome: LeftOut}}, expected)
	testutil.Equal(t, v.String(),
		"  1 left out: no such thing\nconformance: 1 passed, 0 failed, 0 skipped, 1 left out\n", "the verdict")
	testutil.Assert(t, len(v.Stale) == 1 && v.Stale[0].Name == "gone" && len(v.Unexplained) == 0 && v.Total() == 2,
		"got %+v", v)
}
