// Package report runs the specs of critest or Kubernetes, and compares their report with a checked-in list. The list
// has the specs that are expected to fail or to be skipped, each with its cause.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Outcome is how a spec ended.
type Outcome string

// The outcomes. A spec that panicked, timed out or was interrupted has failed. LeftOut is never in a report, because a
// list keeps the spec from running.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
	LeftOut Outcome = "left out"
)

// Spec is one test of the suite.
type Spec struct {
	// Name joins the texts of the spec's Ginkgo containers and the spec's own text with spaces.
	Name string
	// Outcome is how it ended.
	Outcome Outcome
	// Message is the reason of a failure or a skip, possibly of several lines.
	Message string
	// Ran says that the spec was selected; it may have skipped itself.
	Ran bool
	// Again says that it ran a second time, because it failed the first time.
	Again bool
	// Took is how long it ran.
	Took time.Duration
}

// suiteReport is the part of Ginkgo's JSON report that ParseGinkgo reads.
type suiteReport struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeType            string
		LeafNodeText            string
		State                   string
		NumAttempts             int
		RunTime                 time.Duration
		Failure                 struct{ Message string }
	}
}

// ParseGinkgo reads Ginkgo's JSON report (--ginkgo.json-report) of one suite. A failure in the suite's set-up or
// clean-up is an error, because the results of the specs then mean nothing.
func ParseGinkgo(r io.Reader) ([]Spec, error) {
	var suites []suiteReport
	if err := json.NewDecoder(r).Decode(&suites); err != nil {
		return nil, fmt.Errorf("ginkgo report: %w", err)
	}
	if len(suites) != 1 {
		return nil, fmt.Errorf("ginkgo report: %d suites instead of one", len(suites))
	}
	var specs []Spec
	for _, s := range suites[0].SpecReports {
		outcome := outcomeOf(s.State)
		if s.LeafNodeType != "It" {
			if outcome == Failed {
				return nil, fmt.Errorf("ginkgo report: %s failed: %s", s.LeafNodeType, s.Failure.Message)
			}
			continue
		}
		name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
		specs = append(specs, Spec{
			Name: name, Outcome: outcome, Message: s.Failure.Message, Ran: s.NumAttempts > 0, Again: s.NumAttempts > 1,
			Took: s.RunTime,
		})
	}
	return distinct("ginkgo", specs)
}

// distinct returns specs. It fails if there are none, or if two have the same name. Its errors name the kind of report.
func distinct(kind string, specs []Spec) ([]Spec, error) {
	if len(specs) == 0 {
		return nil, fmt.Errorf("%s report: no specs", kind)
	}
	seen := make(map[string]bool)
	for _, spec := range specs {
		if seen[spec.Name] {
			return nil, fmt.Errorf("%s report: two specs are named %q", kind, spec.Name)
		}
		seen[spec.Name] = true
	}
	return specs, nil
}

func outcomeOf(state string) Outcome {
	switch state {
	case "passed":
		return Passed
	case "skipped", "pending":
		return Skipped
	}
	return Failed
}
