package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func failed(names ...string) []Test {
	var tests []Test
	for _, name := range names {
		pkg, test, _ := strings.Cut(name, " ")
		tests = append(tests, Test{Package: pkg, Name: test, Outcome: Fail, Output: "not within 30s"})
	}
	return tests
}

func TestAgain(t *testing.T) {
	race, crash := failed("a TestA/x")[0], failed("a TestA")[0]
	race.Output, crash.Output = "WARNING: DATA RACE", "panic: boom"
	var many []Test
	for i := range maxAgain + 2 {
		many = append(many, failed(fmt.Sprintf("a Test%02d/x", i), fmt.Sprintf("a Test%02d/y", i))...)
	}
	for name, c := range map[string]struct {
		tests []Test
		want  map[string][]string
		left  int
	}{
		"none": {[]Test{{Package: "a", Name: "TestA", Outcome: Pass}}, nil, 0},
		"subtests": {failed("a TestA/x", "a TestA/y", "b TestB"),
			map[string][]string{"a": {"TestA"}, "b": {"TestB"}}, 0},
		"a race":         {append(failed("a TestA/y", "a TestB"), race), map[string][]string{"a": {"TestB"}}, 0},
		"a binary's end": {failed("a", "b TestB"), map[string][]string{"b": {"TestB"}}, 0},
		"a panic":        {append(failed("a TestB", "b TestB"), crash), map[string][]string{"b": {"TestB"}}, 0},
		"a test without an end": {append(failed("a TestB", "b TestB"),
			Test{Package: "a", Name: "TestA", Outcome: Fail, Unended: true}), map[string][]string{"b": {"TestB"}}, 0},
		"more than by chance": {failed("a TestA", "a TestB", "a TestC", "a TestD", "b TestE"),
			map[string][]string{"a": {"TestA", "TestB", "TestC", "TestD"}, "b": {"TestE"}}, 0},
	} {
		if got, left := Again(c.tests); !maps.EqualFunc(got, c.want, slices.Equal[[]string]) || left != c.left {
			t.Errorf("%s: got %v and %d left, want %v and %d", name, got, left, c.want, c.left)
		}
	}
	got, left := Again(many)
	testutil.Assert(t, len(got["a"]) == maxAgain && left == 2, "very many: %d, and %d left", len(got["a"]), left)
}

func TestTooFlaky(t *testing.T) {
	for slow, limit := range map[bool]int{false: maxFlaky, true: maxAgain} {
		few, many := Count{Passed: 1, Flaky: limit}, Count{Passed: 1, Flaky: limit + 1}
		testutil.Assert(t, !few.TooFlaky(slow) && many.TooFlaky(slow), "slow %v: the limit is not %d", slow, limit)
	}
}

func TestJudge(t *testing.T) {
	pass := Test{Package: "a", Name: "TestA/x", Outcome: Pass}
	for name, c := range map[string]struct {
		now   []Test
		want  Outcome
		twice bool
	}{
		"passes":                {[]Test{pass}, Flaky, false},
		"fails again":           {failed("a TestA/x"), Fail, true},
		"another part fails":    {append(failed("a TestA/y"), pass), Fail, true},
		"the binary ends badly": {append(failed("a"), pass), Fail, false},
		"is not there":          {nil, Fail, false},
		"is skipped":            {[]Test{{Package: "a", Name: "TestA/x", Outcome: Skip}}, Fail, false},
	} {
		tests := failed("a TestA/x", "b TestA/x")
		Judge(tests, c.now)
		if tests[0].Outcome != c.want || tests[0].Twice != c.twice || tests[1].Outcome != Fail || tests[1].Twice {
			t.Errorf("%s: %+v, and of another package %+v", name, tests[0], tests[1])
		}
	}
}
