package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/results"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func TestParseTestFlags(t *testing.T) {
	t.Setenv("HALF", "")
	o, err := parseTestFlags(nil)
	testutil.Assert(t, err == nil && o.complete() && !o.noRace && o.parallel == 0, "no flags: %+v, %v", o, err)
	o, err = parseTestFlags([]string{"-run", "TestA", "-v", "./docker", "./cni"})
	if err != nil || o.complete() || !slices.Equal(o.packages, []string{"./docker", "./cni"}) || !o.verbose {
		t.Errorf("two packages: %+v, %v", o, err)
	}
	o, err = parseTestFlags([]string{"-bench", "."})
	testutil.Assert(t, err == nil && !o.complete() && o.noRace && o.parallel == 1, "benchmarks: %+v, %v", o, err)
	for _, args := range [][]string{{"-p", "-1"}, {"-count", "0"}, {"-nonesuch"}} {
		_, err := parseTestFlags(args)
		testutil.Assert(t, err != nil, "%v: accepted", args)
	}
	t.Setenv("HALF", "other")
	_, err = parseTestFlags(nil)
	testutil.Assert(t, err != nil, "HALF=other: accepted")
}

func TestWhichRunsIncludeTheInstalledEngine(t *testing.T) {
	for _, test := range []struct {
		opts testOptions
		want bool
	}{
		{testOptions{}, true},
		{testOptions{half: "system"}, true},
		{testOptions{half: "private"}, false},
		{testOptions{bench: "."}, false},
		{testOptions{run: "TestSystemEngine"}, true},
		{testOptions{run: "^TestSystem"}, true},
		{testOptions{run: "TestRegistry"}, false}, // on the installed engine, it would only be skipped
	} {
		testutil.Equal(t, test.opts.system(), test.want, "%+v", test.opts)
	}
}

func TestBinaryArguments(t *testing.T) {
	tests := []struct {
		name string
		opts testOptions
		kind rigenv.Kind
		want []string
	}{
		{"private", testOptions{}, rigenv.KindPrivate, []string{"-test.skip=^TestSystem"}},
		{"system", testOptions{}, rigenv.KindSystem, []string{"-test.run=^TestSystem"}},
		{"some, private", testOptions{run: "A"}, rigenv.KindPrivate, []string{"-test.run=A", "-test.skip=^TestSystem"}},
		{"benchmarks", testOptions{bench: ".", benchTime: "20x"}, rigenv.KindPrivate,
			[]string{"-test.run=^$", "-test.bench=.", "-test.benchtime=20x", "-test.benchmem"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.opts.count, test.opts.timeout = 3, time.Minute
			want := append([]string{"-test.count=3", "-test.timeout=1m0s"}, test.want...)
			got := test.opts.args(test.kind)
			testutil.Assert(t, slices.Equal(got, want), "got %v, want %v", got, want)
		})
	}
}

// A test that was skipped for a missing controller is neither passed nor an unlisted skip.
func TestWithoutControllers(t *testing.T) {
	output := ""
	t.Run("skipped", func(t *testing.T) {
		skipper := skipRecorder{TB: t, text: &output}
		defer func() { _ = recover() }()
		rigenv.RequireControllers(skipper, "no-such-controller")
	})
	lacked := results.Test{Package: "room", Name: "TestA", Outcome: results.Skip, Output: output}
	other := results.Test{Package: "room", Name: "TestB", Outcome: results.Skip, Output: "another reason"}
	failed := results.Test{Package: "room", Name: "TestC", Outcome: results.Fail, Output: output}
	var said bytes.Buffer
	got := withoutControllers(&said, []results.Test{lacked, other, failed})
	if !slices.Equal(got, []results.Test{other, failed}) || !strings.Contains(said.String(), "1 tests left out") {
		t.Errorf("left %v, and said %q", got, said.String())
	}
}

// skipRecorder keeps the message of a skip.
type skipRecorder struct {
	testing.TB
	text *string
}

func (s skipRecorder) Skip(args ...any) { *s.text = fmt.Sprint(args...); panic(s) }

func TestVerdict(t *testing.T) {
	test := func(name string, outcome results.Outcome) results.Test {
		return results.Test{Package: "room", Name: name, Outcome: outcome, Output: "    a_test.go:7: because of this\n"}
	}
	passed, failed, skipped := test("TestP", results.Pass), test("TestF", results.Fail), test("TestS", results.Skip)
	twice := test("TestT", results.Fail)
	twice.Twice = true
	tests := []struct {
		name       string
		tests      []results.Test
		skips      string
		everything bool
		ci         string
		code       int
		says       string
		last       string
	}{
		{"all passed", []results.Test{passed}, "", true, "true", 0, "", "1 passed, 0 failed, 0 skipped"},
		{"a failure", []results.Test{passed, failed}, "", false, "", 1,
			"failed: room TestF\n    a_test.go:7: because of this\n",
			"1 passed, 1 failed, 0 skipped"},
		{"a flaky one", []results.Test{passed, test("TestB", results.Flaky)}, "", true, "true", 0,
			"passed alone: room TestB", "1 passed, 0 failed, 0 skipped, 1 flaky"},
		{"one that is wrong", []results.Test{passed, twice}, "", true, "true", 1,
			"failed among the others, and alone: room TestT", "1 passed, 1 failed, 0 skipped"},
		{"many flaky ones", slices.Concat([]results.Test{passed},
			slices.Repeat([]results.Test{test("TestB", results.Flaky)}, 4)),
			"", true, "true", 1, "more than fail by chance", "1 passed, 0 failed, 0 skipped, 4 flaky"},
		{"none passed", nil, "", false, "", 1, "no test passed", "0 passed, 0 failed, 0 skipped"},
		{"a listed skip", []results.Test{passed, skipped}, "room TestS # reason", true, "true", 0, "",
			"1 passed, 0 failed, 1 skipped"},
		{"an unlisted skip", []results.Test{passed, skipped}, "", false, "", 1, "because of this",
			"1 passed, 0 failed, 1 skipped"},
		{"a stale entry", []results.Test{passed}, "room TestS # reason", true, "", 0, "not skipped: room TestS",
			"1 passed, 0 failed, 0 skipped"},
		{"a stale entry in CI", []results.Test{passed}, "room TestS # reason", true, "true", 1,
			"not skipped: room TestS", "1 passed, 0 failed, 0 skipped"},
		{"a part of the tests in CI", []results.Test{passed}, "room TestS # reason", false, "true", 0, "",
			"1 passed, 0 failed, 0 skipped"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("CI", test.ci)
			skips, err := results.ParseSkips(strings.NewReader(test.skips))
			testutil.Must(t, err)
			var out bytes.Buffer
			testutil.Equal(t, verdict(&out, test.tests, skips, test.everything, false), test.code, "exit code")
			if !strings.Contains(out.String(), test.says) || !strings.HasSuffix(out.String(), "\n"+test.last+"\n") {
				t.Errorf("said %q, want %q and %q", out.String(), test.says, test.last)
			}
		})
	}
}

func TestReportShowsFailuresInFull(t *testing.T) {
	var out bytes.Buffer
	report(&out, "room", []results.Test{
		{Package: "room", Name: "TestP", Outcome: results.Pass, Output: "quiet"},
		{Package: "room", Name: "TestF", Outcome: results.Fail, Output: "first\nlast\n"},
	}, 1500*time.Millisecond)
	want := "--- room TestF\nfirst\nlast\nFAIL  room                         1 passed, 1 failed, 0 skipped  (1.5s)\n"
	testutil.Assert(t, out.String() == want, "got %q, want %q", out.String(), want)
}

// TestCompileAndRun takes a small module of two good packages and a broken sibling of one from sources to outcomes.
func TestCompileAndRun(t *testing.T) {
	dir := t.TempDir()
	for path, content := range map[string]string{
		"go.mod":      "module example\n\ngo 1.26\n",
		"a/same/a.go": "// Package same has a twin.\npackage same\n",
		"a/same/a_test.go": "package same\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestDir(t *testing.T) {\n" +
			"\tif _, err := os.Stat(\"a_test.go\"); err != nil {\n\t\tt.Error(err)\n\t}\n}\n\n" +
			"func TestSystemA(t *testing.T) { t.Error() }\n",
		"b/same/b_test.go": "package same\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
			"func TestFails(t *testing.T) { t.Error(\"wrong\") }\n\n" +
			"func TestFailsOnce(t *testing.T) {\n\tif err := os.Mkdir(\"ran\", 0o700); err == nil {\n" +
			"\t\tt.Error(\"busy\")\n\t}\n}\n",
		"a/broken/c_test.go": "package broken\n\nfunc TestBroken(t *testing.T) {}\n",
		"empty/empty.go":     "// Package empty has no tests.\npackage empty\n",
	} {
		testutil.WriteFile(t, filepath.Join(dir, path), content)
	}
	t.Chdir(dir)
	out := t.TempDir()
	opts := testOptions{packages: []string{"./..."}, count: 1, timeout: time.Minute, parallel: 2, noRace: true}
	packages, err := listPackages(t.Context(), opts.packages, nil)
	testutil.Must(t, err)
	binaries, failed, err := compile(t.Context(), t.TempDir(), out, packages, opts)
	testutil.Must(t, err)
	var names []string
	for _, test := range failed {
		names = append(names, test.Package)
	}
	testutil.Assert(t, slices.Equal(names, []string{"go vet", "a/broken"}), "failed: %v", names)
	if len(binaries) != 2 || binaries[0].System || !binaries[1].System { // the larger package is first
		t.Fatalf("binaries: %+v", binaries)
	}

	p, err := newTestPlan(t.Context(), opts, rigenv.KindPrivate)
	testutil.Must(t, err)
	p.Binaries, p.Output = binaries, io.Discard
	var l leg
	testutil.Must(t, l.runFirst(p, opts, func(p testPlan, _ int) ([]results.Test, error) {
		return runAll(t.Context(), rigenv.Env{}, p)
	}))
	count := results.CountOf(l.tests)
	testutil.Assert(t, count == (results.Count{Passed: 1, Failed: 2}), "after the first run: %s: %+v", count, l.tests)
	testutil.Must(t, l.runSecond())
	count = results.CountOf(l.tests)
	testutil.Assert(t, count == (results.Count{Passed: 1, Failed: 1, Flaky: 1}), "%s: %+v", count, l.tests)
}

func TestSkipListIsWellFormed(t *testing.T) {
	_, err := readSkips("../..")
	testutil.Check(t, err)
}
