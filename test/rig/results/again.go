package results

import (
	"slices"
	"strings"
)

// maxAgain is how many tests of one engine run a second time. More failures than these have one cause, which the first
// of them show.
const maxAgain = 10

// maxFlaky is how many tests of one engine may pass the second time in a run that succeeds. More than these do not fail
// by chance.
const maxFlaky = 3

// Again returns the names of the top-level tests of each package that run a second time, alone, to tell a flaky test
// from a wrong one: tests that failed, at most maxAgain. A test with a data race is never flaky. No test of a package
// that panicked or ended badly runs again. left counts the failed top-level tests beyond maxAgain.
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

// crashed says whether a test binary ended badly, so that its tests say nothing about themselves.
func crashed(tests []Test, pkg string) bool {
	return slices.ContainsFunc(tests, func(t Test) bool {
		return t.Package == pkg && t.Outcome == Fail && (t.Name == "" || strings.Contains(t.Output, "panic:"))
	})
}

// raced says whether a part of the test's top-level test had a data race.
func raced(tests []Test, test Test) bool {
	return slices.ContainsFunc(tests, func(t Test) bool {
		return t.Package == test.Package && t.top() == test.top() && strings.Contains(t.Output, "DATA RACE")
	})
}

// TooFlaky says whether more tests passed the second time only than fail by chance.
func (c Count) TooFlaky() bool { return c.Flaky > maxFlaky }

// Judge makes Flaky those failed tests of one package that passed now, if the whole of their top-level test did. Those
// that failed now have Twice set.
func Judge(tests []Test, pkg string, now []Test) {
	failed, passed := map[string]bool{}, map[string]bool{}
	for _, t := range now {
		failed[t.top()] = failed[t.top()] || t.Outcome == Fail
		passed[t.Name] = t.Outcome == Pass
	}
	for i, t := range tests {
		switch {
		case t.Package != pkg || t.Outcome != Fail:
		case failed[t.top()]:
			tests[i].Twice = true
		case passed[t.Name] && !failed[""]:
			tests[i].Outcome = Flaky
		}
	}
}

// top is the name without those of subtests.
func (t Test) top() string {
	name, _, _ := strings.Cut(t.Name, "/")
	return name
}
