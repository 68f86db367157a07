// Package checklist makes the report of a command that checks a node: findings in groups, each with a remedy.
package checklist

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Outcome is the result of one check.
type Outcome string

// Outcomes, from good to bad. A node with warnings works. A node with failures does not work, or will fail soon.
const (
	OK   Outcome = "ok"
	Warn Outcome = "warn"
	Fail Outcome = "fail"
)

// Finding is one line of a report.
type Finding struct {
	// Group is the finding's heading, Check its name. Both are stable.
	Group  string  `json:"group"`
	Check  string  `json:"check"`
	Status Outcome `json:"status"`
	// Text describes the finding. Do is its remedy, empty for none.
	Text string `json:"text"`
	Do   string `json:"do,omitempty"`
	// Things lists every object that has this finding. Text may name only some of them.
	Things []string `json:"things,omitempty"`
}

// Report is a list of findings. The zero value is empty.
type Report struct {
	Findings []Finding `json:"findings"`
	// Warnings and Failures count the findings with these outcomes.
	Warnings int `json:"warnings"`
	Failures int `json:"failures"`
}

// Group returns a group of findings, which are added to the report.
func (r *Report) Group(name string) *Group { return &Group{report: r, name: name} }

// WriteText writes the report for a person.
func (r Report) WriteText(to io.Writer) error {
	var text strings.Builder
	group := ""
	for _, f := range r.Findings {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&text, "%s\n", group)
		}
		fmt.Fprintf(&text, "  %-4s  %-20s  %s\n", f.Status, f.Check, f.Text)
		if f.Do != "" {
			fmt.Fprintf(&text, "  %-4s  %-20s  -> %s\n", "", "", f.Do)
		}
	}
	fmt.Fprintf(&text, "\n%d ok, %d to look at (warn), %d to fix (fail)\n", len(r.Findings)-r.Warnings-r.Failures,
		r.Warnings, r.Failures)
	_, err := io.WriteString(to, text.String())
	return err
}

// Group adds findings to a report.
type Group struct {
	report *Report
	name   string
	// things are the objects of the next finding.
	things []string
}

// Of returns the group for one finding about these objects.
func (g *Group) Of(things []string) *Group {
	return &Group{report: g.report, name: g.name, things: things}
}

// OK adds a good finding.
func (g *Group) OK(check, format string, args ...any) {
	g.add(Finding{Check: check, Status: OK, Text: fmt.Sprintf(format, args...)})
}

// Warn adds a finding to look at, with its remedy.
func (g *Group) Warn(check, do, format string, args ...any) {
	g.add(Finding{Check: check, Status: Warn, Do: do, Text: fmt.Sprintf(format, args...)})
}

// Fail adds a finding to fix, with its remedy.
func (g *Group) Fail(check, do, format string, args ...any) {
	g.add(Finding{Check: check, Status: Fail, Do: do, Text: fmt.Sprintf(format, args...)})
}

func (g *Group) add(f Finding) {
	f.Group, f.Things = g.name, g.things
	g.report.Findings = append(g.report.Findings, f)
	switch f.Status {
	case Warn:
		g.report.Warnings++
	case Fail:
		g.report.Failures++
	}
}

// Failed reports whether the group has a finding to fix.
func (g *Group) Failed() bool {
	return slices.ContainsFunc(g.report.Findings, func(f Finding) bool { return f.Group == g.name && f.Status == Fail })
}
