package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// outcome is how a test ended.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
	// absent is the outcome of a test that did not run.
	absent outcome = "–"
)

// group is a set of tests that do not pass on a runtime for the same cause.
type group struct {
	Runtime string `json:"runtime"`
	// Cause says in one sentence why the tests do not pass.
	Cause   string   `json:"cause"`
	Outcome outcome  `json:"outcome"`
	Tests   []string `json:"tests"`
}

// list is the checked-in list of expected differences.
type list []group

func parseList(text []byte) (list, error) {
	var all list
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, g := range all {
		switch {
		case strings.TrimSpace(g.Cause) == "":
			return nil, fmt.Errorf("group %d has no cause", i+1)
		case g.Runtime == "" || g.Runtime == reference:
			return nil, fmt.Errorf("%q: runtime %q: want one other than %s", g.Cause, g.Runtime, reference)
		case g.Outcome != failed && g.Outcome != skipped:
			return nil, fmt.Errorf("%q: outcome %q is neither %s nor %s", g.Cause, g.Outcome, failed, skipped)
		case len(g.Tests) == 0:
			return nil, fmt.Errorf("%q has no tests", g.Cause)
		}
		for _, test := range g.Tests {
			if key := g.Runtime + " " + test; seen[key] {
				return nil, fmt.Errorf("%s is listed twice", key)
			} else {
				seen[key] = true
			}
		}
	}
	return all, nil
}

// expected returns the outcome that a test should have on a runtime, and the listed cause of an outcome other than a
// pass.
func (l list) expected(runtime, test string) (outcome, string) {
	for _, g := range l {
		for _, name := range g.Tests {
			if g.Runtime == runtime && name == test {
				return g.Outcome, g.Cause
			}
		}
	}
	return passed, ""
}
