package results

import (
	"maps"
	"slices"
	"strings"
	"testing"
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
	race := failed("a TestA")
	race[0].Output = "WARNING: DATA RACE"
	for name, c := range map[string]struct {
		tests []Test
		want  map[string][]string
	}{
		"none":                {[]Test{{Package: "a", Name: "TestA", Outcome: Pass}}, nil},
		"subtests":            {failed("a TestA/x", "a TestA/y", "b TestB"), map[string][]string{"a": {"TestA"}, "b": {"TestB"}}},
		"a race":              {append(failed("a TestB"), race...), nil},
		"a crash":             {failed("a"), nil},
		"more than by chance": {failed("a TestA", "a TestB", "a TestC", "b TestD"), nil},
	} {
		if got := Again(c.tests); !maps.EqualFunc(got, c.want, slices.Equal[[]string]) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	pass := Test{Package: "a", Name: "TestA/x", Outcome: Pass}
	for name, c := range map[string]struct {
		now  []Test
		want Outcome
	}{
		"passes":                {[]Test{pass}, Flaky},
		"fails again":           {failed("a TestA/x"), Fail},
		"another part fails":    {append(failed("a TestA/y"), pass), Fail},
		"the binary ends badly": {append(failed("a"), pass), Fail},
		"is not there":          {nil, Fail},
		"is skipped":            {[]Test{{Package: "a", Name: "TestA/x", Outcome: Skip}}, Fail},
	} {
		tests := failed("a TestA/x", "b TestA/x")
		if Judge(tests, "a", c.now); tests[0].Outcome != c.want || tests[1].Outcome != Fail {
			t.Errorf("%s: %s, and of another package %s", name, tests[0].Outcome, tests[1].Outcome)
		}
	}
}
