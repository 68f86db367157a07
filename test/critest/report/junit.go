package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// junit is the part of a JUnit report that ParseJUnit reads.
type junit struct {
	Suites []struct {
		Cases []junitCase `xml:"testcase"`
	} `xml:"testsuite"`
}

// junitCase is a spec, or the suite's set-up or clean-up.
type junitCase struct {
	Name    string  `xml:"name,attr"`
	Status  string  `xml:"status,attr"`
	Seconds float64 `xml:"time,attr"`
	Failure string  `xml:"failure"`
	Error   string  `xml:"error"`
	Skipped *struct {
		Message string `xml:"message,attr"`
	} `xml:"skipped"`
}

// ParseJUnit reads the JUnit report that Kubernetes' end-to-end program writes of one suite. Like ParseGinkgo it fails
// if the set-up or the clean-up failed. Ran is false for a spec that the filter left out.
func ParseJUnit(r io.Reader) ([]Spec, error) {
	var report junit
	if err := xml.NewDecoder(r).Decode(&report); err != nil {
		return nil, fmt.Errorf("junit report: %w", err)
	}
	if len(report.Suites) != 1 {
		return nil, fmt.Errorf("junit report: %d suites instead of one", len(report.Suites))
	}
	var specs []Spec
	for _, c := range report.Suites[0].Cases {
		name, isSpec := strings.CutPrefix(c.Name, "[It] ")
		spec := Spec{Name: name, Outcome: outcomeOf(c.Status), Message: c.Failure + c.Error,
			Took: time.Duration(c.Seconds * float64(time.Second))}
		switch {
		case !isSpec && spec.Outcome == Failed:
			return nil, fmt.Errorf("junit report: %s failed: %s", c.Name, spec.Message)
		case !isSpec:
			continue
		}
		if c.Skipped != nil {
			spec.Message = c.Skipped.Message
		}
		spec.Ran = spec.Outcome != Skipped || strings.HasPrefix(spec.Message, "skipped - ")
		specs = append(specs, spec)
	}
	return distinct("junit", specs)
}
