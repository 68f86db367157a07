package results

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func finish(t *testing.T, exit error, lines ...string) []Test {
	t.Helper()
	p := NewPackage("room")
	for _, line := range lines {
		p.Line([]byte(line))
	}
	return p.Finish(exit)
}

func names(tests []Test, outcome Outcome) string {
	var found []string
	for _, test := range tests {
		if test.Outcome == outcome {
			found = append(found, test.Name)
		}
	}
	return strings.Join(found, " ")
}

func TestOnlyLeavesCount(t *testing.T) {
	tests := finish(t, nil,
		`{"Action":"start"}`,
		`{"Action":"run","Test":"TestA"}`,
		`{"Action":"run","Test":"TestA/one"}`,
		`{"Action":"run","Test":"TestA/two"}`,
		`{"Action":"pass","Test":"TestA/one"}`,
		`{"Action":"skip","Test":"TestA/two"}`,
		`{"Action":"pass","Test":"TestA"}`,
		`{"Action":"run","Test":"TestAB"}`,
		`{"Action":"pass","Test":"TestAB"}`,
		`{"Action":"pass"}`)
	got := CountOf(tests).String()
	testutil.Assert(t, got == "2 passed, 0 failed, 1 skipped", "%s: %v", got, tests)
	testutil.Equal(t, names(tests, Pass), "TestA/one TestAB", "passed")
}

func TestHeadingThatFailsByItselfCounts(t *testing.T) {
	tests := finish(t, errors.New("exit status 1"),
		`{"Action":"run","Test":"TestA"}`,
		`{"Action":"run","Test":"TestA/one"}`,
		`{"Action":"run","Test":"TestA/one/deep"}`,
		`{"Action":"pass","Test":"TestA/one/deep"}`,
		`{"Action":"pass","Test":"TestA/one"}`,
		`{"Action":"output","Test":"TestA","Output":"the cleanup failed\n"}`,
		`{"Action":"fail","Test":"TestA"}`,
		`{"Action":"fail"}`)
	testutil.Equal(t, names(tests, Fail), "TestA", "failed")
	testutil.Equal(t, names(tests, Pass), "TestA/one/deep", "passed")
	again, _ := Again(tests)
	testutil.Assert(t, slices.Equal(again["room"], []string{"TestA"}), "these run again: %v", again)
	Judge(tests, []Test{{Package: "room", Name: "TestA/one/deep", Outcome: Pass}})
	testutil.Equal(t, names(tests, Flaky), "TestA", "flaky")
}

func TestFailuresShowTheirHeadingsOutput(t *testing.T) {
	tests := finish(t, errors.New("exit status 1"),
		`{"Action":"run","Test":"TestA"}`,
		`{"Action":"output","Test":"TestA","Output":"prepared\n"}`,
		`{"Action":"run","Test":"TestA/one"}`,
		`{"Action":"output","Test":"TestA/one","Output":"wrong\n"}`,
		`{"Action":"fail","Test":"TestA/one"}`,
		`{"Action":"fail","Test":"TestA"}`,
		`{"Action":"output","Output":"FAIL\n"}`,
		`{"Action":"fail"}`)
	if len(tests) != 1 || tests[0].Outcome != Fail || !strings.HasPrefix(tests[0].Output, "prepared\nwrong\n") {
		t.Errorf("got %+v", tests)
	}
}

func TestOneFailureOfManyRunsCounts(t *testing.T) {
	tests := finish(t, errors.New("exit status 1"),
		`{"Action":"run","Test":"TestA"}`, `{"Action":"fail","Test":"TestA"}`,
		`{"Action":"run","Test":"TestA"}`, `{"Action":"pass","Test":"TestA"}`,
		`{"Action":"fail"}`)
	testutil.Assert(t, len(tests) == 1 && tests[0].Outcome == Fail, "got %+v", tests)
}

func TestWholePackageFailures(t *testing.T) {
	passed := []string{`{"Action":"run","Test":"TestA"}`, `{"Action":"pass","Test":"TestA"}`}
	tests := []struct {
		name  string
		exit  error
		lines []string
	}{
		{"bad exit after success", errors.New("exit status 3"),
			append(passed, `{"Action":"output","Output":"reason"}`, `{"Action":"pass"}`)},
		{"no verdict", nil, append(passed, `{"Action":"output","Output":"reason"}`)},
		{"no event at all", errors.New("exit status 2"), []string{"reason"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := finish(t, test.exit, test.lines...)
			last := got[len(got)-1]
			if last.Name != "" || last.Outcome != Fail || !strings.Contains(last.Output, "reason") ||
				CountOf(got).Failed != 1 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestRealBinaries compiles tests that crash, and counts the outcomes that test2json reports.
func TestRealBinaries(t *testing.T) {
	tests := []struct {
		name, body   string
		pass, failed string
	}{
		{"panic in a test", `func TestA(t *testing.T) {}
			func TestB(t *testing.T) { panic("boom") }
			func TestC(t *testing.T) { os.Exit(0) }`, "TestA", "TestB"},
		{"exit in a test", `func TestA(t *testing.T) {}
			func TestB(t *testing.T) { os.Exit(3) }`, "TestA", "TestB"},
		{"exit in a subtest", `func TestA(t *testing.T) { t.Error("wrong") }
			func TestB(t *testing.T) { t.Run("x", func(t *testing.T) { os.Exit(1) }) }
			func TestC(t *testing.T) {}`, "", "TestA TestB/x"},
		{"exit after the subtests", `func TestA(t *testing.T) { t.Error("wrong") }
			func TestB(t *testing.T) { t.Run("x", func(t *testing.T) {}); os.Exit(1) }`, "TestB/x", "TestA TestB"},
		{"a killed binary", `func TestA(t *testing.T) {}
			func TestB(t *testing.T) { p, _ := os.FindProcess(os.Getpid()); p.Kill(); select {} }`, "TestA", "TestB"},
		{"a fatal error", `func TestA(t *testing.T) { var l sync.Mutex; l.Unlock(); os.Exit(0) }`, "", "TestA"},
		{"time-out in a subtest", `func TestA(t *testing.T) { t.Run("slow", func(t *testing.T) { select {} }) }
			var _ = os.Exit`, "", "TestA/slow"},
		{"nothing to run", `var _ = os.Exit
			var _ testing.TB`, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testutil.WriteFile(t, filepath.Join(dir, "go.mod"), "module example\n\ngo 1.26\n")
			testutil.WriteFile(t, filepath.Join(dir, "a_test.go"),
				"package a\n\nimport (\n\t\"os\"\n\t\"sync\"\n\t\"testing\"\n)\n\nvar _ sync.Mutex\n\n"+test.body+"\n")
			cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-json", "-timeout=2s", ".")
			cmd.Dir = dir
			out, err := cmd.Output()
			got := finish(t, err, slices.Collect(strings.Lines(string(out)))...)
			again, _ := Again(got)
			testutil.Assert(t, len(again) == 0, "these tests run again: %v", again)
			if names(got, Pass) != test.pass || names(got, Fail) != test.failed {
				t.Errorf("passed %q, failed %q; want %q, %q\n%s", names(got, Pass), names(got, Fail), test.pass,
					test.failed, out)
			}
		})
	}
}

// TestLinesThatAreNoEvents: a line that is not an event counts as output, and stays unchanged.
func TestLinesThatAreNoEvents(t *testing.T) {
	var live strings.Builder
	p := NewPackage("room")
	testutil.Must(t, p.Read(strings.NewReader("panic: boom\n\ngoroutine 1"), &live))
	const want = "panic: boom\n\ngoroutine 1\n"
	testutil.Equal(t, live.String(), want, "live output")
	testutil.Equal(t, p.Finish(nil)[0].Output, want, "output of the package")
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"Action":"run","Test":"TestA/one"}`), []byte(`{"Action":"pass","Test":"TestA"}`))
	f.Add([]byte(`{"Action":"output","Output":"x"}`), []byte(`panic: boom`))
	f.Add([]byte(`{"Action":"fail","Test":"/"}`), []byte(`{"Action":"pass"}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		p := NewPackage("room")
		p.Line(first)
		p.Line(second)
		tests := p.Finish(errors.New("exit status 1"))
		testutil.Assert(t, CountOf(tests).Failed != 0, "a binary that ended badly has no failure: %+v", tests)
	})
}

// A benchmark has no event for its end, only its package has.
func TestBenchmarks(t *testing.T) {
	begun := []string{`{"Action":"run","Test":"BenchmarkA"}`,
		`{"Action":"output","Test":"BenchmarkA","Output":"BenchmarkA 1 2 ns/op"}`}
	testutil.Equal(t, names(finish(t, nil, append(begun, `{"Action":"pass"}`)...), Pass), "BenchmarkA", "passed")
	testutil.Equal(t, names(finish(t, errors.New("exit status 2"), begun...), Fail), "BenchmarkA",
		"after a crash, failed")
}

func TestLongest(t *testing.T) {
	tests := finish(t, nil,
		`{"Action":"run","Test":"TestA"}`, `{"Action":"pass","Test":"TestA","Elapsed":1.5}`,
		`{"Action":"run","Test":"TestB"}`, `{"Action":"pass","Test":"TestB","Elapsed":20}`,
		`{"Action":"run","Test":"TestC"}`, `{"Action":"skip","Test":"TestC","Elapsed":0}`,
		`{"Action":"pass","Elapsed":21.5}`)
	got := Longest(tests, 2)
	want := []Test{
		{Package: "room", Name: "TestB", Outcome: Pass, Seconds: 20},
		{Package: "room", Name: "TestA", Outcome: Pass, Seconds: 1.5},
	}
	testutil.Assert(t, slices.Equal(got, want), "%+v", got)
}
