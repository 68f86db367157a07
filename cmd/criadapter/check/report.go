package check

import (
	"fmt"
	"io"
	"strings"
)

// outcome is the result of one check.
type outcome string

// Outcomes, from good to bad. A node with warnings works. A node with a failure does not, or will fail soon.
const (
	statusOK   outcome = "ok"
	statusWarn outcome = "warn"
	statusFail outcome = "fail"
)

// Finding is one line of a report.
type Finding struct {
	// Group is the finding's heading, Check its name. Both are stable.
	Group  string  `json:"group"`
	Check  string  `json:"check"`
	Status outcome `json:"status"`
	// Text is the finding, Do its remedy, empty for none.
	Text string `json:"text"`
	Do   string `json:"do,omitempty"`
	// Things are all objects of the finding. Text names some of them.
	Things []string `json:"things,omitempty"`
}

// Report is the result of judgeNode.
type Report struct {
	Findings []Finding `json:"findings"`
	// Warnings and Failures count the findings with these outcomes.
	Warnings int `json:"warnings"`
	Failures int `json:"failures"`
}

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
	fmt.Fprintf(&text, "\n%d ok, %d to look at (warn), %d to mend (fail)\n", len(r.Findings)-r.Warnings-r.Failures,
		r.Warnings, r.Failures)
	_, err := io.WriteString(to, text.String())
	return err
}

// judge collects the findings of one group.
type judge struct {
	group    string
	findings []Finding
}

func (j *judge) ok(check, format string, args ...any) {
	j.findings = append(j.findings,
		Finding{Group: j.group, Check: check, Status: statusOK, Text: fmt.Sprintf(format, args...)})
}

// warn and fail take the remedy before the finding.
func (j *judge) warn(check, do, format string, args ...any) {
	j.findings = append(j.findings,
		Finding{Group: j.group, Check: check, Status: statusWarn, Do: do, Text: fmt.Sprintf(format, args...)})
}

func (j *judge) fail(check, do, format string, args ...any) {
	j.findings = append(j.findings,
		Finding{Group: j.group, Check: check, Status: statusFail, Do: do, Text: fmt.Sprintf(format, args...)})
}
