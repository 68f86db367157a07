package results

import (
	"slices"
	"strings"
)

// maxAgain is the number of tests of one engine that may run a second time. More failures usually have one cause, which
// the first ones show.
const maxAgain = 10

// maxFlaky is the number of flaky tests of one engine in a run that may still succeed. More tests do not fail by
// chance. On a slow machine, programs are often late, so maxAgain is the limit.
const maxFlaky = 3

// Again returns, by package, the failed top-level tests that run a second time, alone, at most maxAgain. A flaky test
// then passes. A test with a data race is never flaky. No test of a package that panicked or ended badly runs again.
// left counts the failed top-level tests beyond maxAgain.
func Again(tests []Test) (again map[string][]string, left int) {
	again = map[string][]string{}
	seen := map[[2]string]bool{}
	for _, t := range tests {
		top := [2]string{t.Package, t.top()}
		if t.Outcome != Fail || seen[top] || crashed(tests, t.Package) || raced(tests, t) {
			continue
		}
		if seen[top] = true; len(seen) > maxAgain {
			left++
			continue
		}
		again[t.Package] = append(again[t.Package], t.top())
	}
	return again, left
}

// crashed says whether a test binary ended badly. The outcomes of its tests are then worthless.
func crashed(tests []Test, pkg string) bool {
	return slices.ContainsFunc(tests, func(t Test) bool {
		bad := t.Name == "" || t.Unended || strings.Contains(t.Output, "panic:")
		return t.Package == pkg && t.Outcome == Fail && bad
	})
}

// raced says whether a part of the test's top-level test had a data race.
func raced(tests []Test, test Test) bool {
	return slices.ContainsFunc(tests, func(t Test) bool {
		return t.Package == test.Package && t.top() == test.top() && strings.Contains(t.Output, "DATA RACE")
	})
}

// TooFlaky says whether too many tests were flaky to blame chance, on a slow machine or on a usual one.
func (c Count) TooFlaky(slow bool) bool {
	if slow {
		return c.Flaky > maxAgain
	}
	return c.Flaky > maxFlaky
}

// Judge makes a failed test Flaky if it passed now, its top-level test did not fail, and its binary ended well. If its
// top-level test failed again, Judge sets Twice.
func Judge(tests, now []Test) {
	type name struct{ pkg, test string }
	failed := map[name]bool{}
	for _, t := range now {
		if t.Outcome == Fail {
			failed[name{t.Package, t.top()}] = true
		}
	}
	for i, t := range tests {
		switch {
		case t.Outcome != Fail:
		case failed[name{t.Package, t.top()}]:
			tests[i].Twice = true
		case !failed[name{t.Package, ""}] && slices.ContainsFunc(now, t.passedAs):
			tests[i].Outcome = Flaky
		}
	}
}

// passedAs says whether other is the same test, or a subtest of it, and passed.
func (t Test) passedAs(other Test) bool {
	same := other.Name == t.Name || strings.HasPrefix(other.Name, t.Name+"/")
	return other.Package == t.Package && same && other.Outcome == Pass
}

// top returns the name of the top-level test.
func (t Test) top() string {
	name, _, _ := strings.Cut(t.Name, "/")
	return name
}
