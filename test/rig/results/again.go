package results

import (
	"slices"
	"strings"
)

// maxAgain is how many tests get a second chance. More than these do not fail by chance.
const maxAgain = 3

// Again returns the names of the top-level tests of each package that may run a second time, alone: those that failed
// without a data race, a panic or the end of their binary, which are never chance, if they are few. A failed test that
// may not, or too many, leave nothing: the run has failed anyway.
func Again(tests []Test) map[string][]string {
	again, few := map[string][]string{}, 0
	for _, t := range tests {
		if t.Outcome != Fail {
			continue
		}
		if t.Name == "" || strings.Contains(t.Output, "DATA RACE") || strings.Contains(t.Output, "panic:") {
			return nil
		}
		if top := t.top(); !slices.Contains(again[t.Package], top) {
			again[t.Package] = append(again[t.Package], top)
			few++
		}
	}
	if few > maxAgain {
		return nil
	}
	return again
}

// Judge makes Flaky those failed tests of one package that passed now, if the whole of their top-level test did.
func Judge(tests []Test, pkg string, now []Test) {
	failed, passed := map[string]bool{}, map[string]bool{}
	for _, t := range now {
		failed[t.top()] = failed[t.top()] || t.Outcome == Fail
		passed[t.Name] = t.Outcome == Pass
	}
	for i, t := range tests {
		if t.Package == pkg && t.Outcome == Fail && passed[t.Name] && !failed[t.top()] && !failed[""] {
			tests[i].Outcome = Flaky
		}
	}
}

// top is the name without those of subtests.
func (t Test) top() string {
	name, _, _ := strings.Cut(t.Name, "/")
	return name
}
