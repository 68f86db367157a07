package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Verdict compares a run with the list of expected results.
type Verdict struct {
	// Suite is the name of the suite.
	Suite string
	// Passed, Failed, Skipped and LeftOut count the specs.
	Passed, Failed, Skipped, LeftOut int
	// Again has the names of the specs that failed at first and passed when they ran again.
	Again []string
	// Causes says how many specs each cause explains, in the order of the list.
	Causes []Cause
	// Unexplained has the specs that failed or were skipped, but are not on the list with that outcome. They are
	// ordered by name.
	Unexplained []Spec
	// Stale has the entries of the list whose spec ended with another outcome or does not exist. They are ordered by
	// name.
	Stale []Entry
}

// Cause is a cause with the number of specs that it explains.
type Cause struct {
	Cause   string
	Outcome Outcome
	Specs   int
}

// Entry is one spec on the list with its actual outcome.
type Entry struct {
	Name string
	// Want is the listed outcome, and Got the actual one. Got is empty if no spec has that name.
	Want, Got Outcome
}

// Judge compares the specs of a run of a suite with the list.
func Judge(suite string, specs []Spec, expected Expected) Verdict {
	v := Verdict{Suite: suite}
	got := make(map[string]Outcome, len(specs))
	for _, spec := range specs {
		got[spec.Name] = spec.Outcome
		switch spec.Outcome {
		case Passed:
			v.Passed++
			if spec.Again {
				v.Again = append(v.Again, spec.Name)
			}
		case Failed:
			v.Failed++
		case Skipped:
			v.Skipped++
		case LeftOut:
			v.LeftOut++
		}
	}
	explained := make(map[string]bool)
	for _, group := range expected {
		cause := Cause{Cause: group.Cause, Outcome: group.Outcome}
		for _, name := range group.Specs {
			if got[name] != group.Outcome {
				v.Stale = append(v.Stale, Entry{Name: name, Want: group.Outcome, Got: got[name]})
				continue
			}
			explained[name] = true
			cause.Specs++
		}
		v.Causes = append(v.Causes, cause)
	}
	for _, spec := range specs {
		if spec.Outcome != Passed && !explained[spec.Name] {
			v.Unexplained = append(v.Unexplained, spec)
		}
	}
	slices.SortFunc(v.Unexplained, func(a, b Spec) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Stale, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return v
}

// Total is the number of specs.
func (v Verdict) Total() int { return v.Passed + v.Failed + v.Skipped + v.LeftOut }

// Err lists what is wrong with the run: unexplained specs, stale entries, or another number of specs than total. It is
// nil if the run is as expected.
func (v Verdict) Err(total int) error {
	var wrong []string
	for _, spec := range v.Unexplained {
		wrong = append(wrong,
			fmt.Sprintf("not expected: %s: %s\n    %s", spec.Outcome, spec.Name, firstLine(spec.Message)))
	}
	for _, entry := range v.Stale {
		became := string(entry.Got)
		if became == "" {
			became = "no such spec"
		}
		wrong = append(wrong, fmt.Sprintf("stale entry: %s, now %s: %s", entry.Want, became, entry.Name))
	}
	if v.Total() != total {
		wrong = append(wrong, fmt.Sprintf("%d specs instead of %d", v.Total(), total))
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s did not end as expected:\n  %s", v.Suite, strings.Join(wrong, "\n  "))
}

// String is the summary: a line for each spec that passed when it ran again and for each cause, then the counts in one
// line.
func (v Verdict) String() string {
	var text strings.Builder
	for _, name := range v.Again {
		fmt.Fprintf(&text, "passed when it ran again: %s\n", name)
	}
	for _, cause := range v.Causes {
		fmt.Fprintf(&text, "%3d %s: %s\n", cause.Specs, cause.Outcome, cause.Cause)
	}
	fmt.Fprintf(&text, "%s: %d passed, %d failed, %d skipped", v.Suite, v.Passed, v.Failed, v.Skipped)
	if v.LeftOut > 0 {
		fmt.Fprintf(&text, ", %d left out", v.LeftOut)
	}
	fmt.Fprintln(&text)
	return text.String()
}

func firstLine(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return line
}
