// Package results counts the outcomes that test binaries report. It reads the events of `go tool test2json` and counts
// leaf tests. A test with subtests is a heading, whose outcome follows from its subtests. A heading counts only if it
// failed although no subtest did.
package results

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Outcome is the result of a test, in test2json's words.
type Outcome string

// The outcomes of a test.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
	// Flaky is a test that failed among the others and passed alone. test2json has no such outcome.
	Flaky Outcome = "flaky"
)

// Test is a leaf test and its outcome. Name is empty for a package that failed as a whole: it did not build, or its
// binary ended badly although no test failed.
type Test struct {
	Package string
	Name    string
	Outcome Outcome
	// Seconds is how long it took, without the time it waited for other parallel tests.
	Seconds float64
	// Twice says that it failed among the others, and again alone.
	Twice bool
	// Unended says that it never ended, because its binary ended first. Other tests may then never have begun.
	Unended bool
	// Output is the test's output. The output of a heading comes before the output of each of its leaves.
	Output string
}

// String names the test as "package Test/sub".
func (t Test) String() string {
	if t.Name == "" {
		return t.Package
	}
	return t.Package + " " + t.Name
}

// event is a line of test2json; see `go doc test2json`.
type event struct {
	Action string
	Test   string
	Output string
	// Elapsed is the test's duration in seconds, in the event of its end.
	Elapsed float64
}

// Package collects the events of one package. It isn't safe for concurrent use.
type Package struct {
	path    string
	order   []string
	tests   map[string]*Test
	output  strings.Builder // output outside of tests
	outcome Outcome
}

// NewPackage returns an empty Package. path is its import path, or a shorter name to show.
func NewPackage(path string) *Package {
	return &Package{path: path, tests: map[string]*Test{}}
}

// Read takes the lines of test2json to their end, and writes their texts to output.
func (p *Package) Read(events io.Reader, output io.Writer) error {
	for lines := bufio.NewReader(events); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			_, _ = io.WriteString(output, p.Line(line)) // a failed write does not change the results
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Line takes one line of test2json, with or without its newline, and returns the text in it, for live output. A line
// that is not an event counts as output of the package.
func (p *Package) Line(line []byte) string {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		text := strings.TrimSuffix(string(line), "\n") + "\n"
		p.output.WriteString(text)
		return text
	}
	switch e.Action {
	case "run":
		p.test(e.Test)
	case "output":
		if e.Test == "" {
			p.output.WriteString(e.Output)
		} else {
			p.test(e.Test).Output += e.Output
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.outcome = Outcome(e.Action)
		} else if t := p.test(e.Test); t.Outcome != Fail { // with -count, one failure is enough
			t.Outcome, t.Seconds = Outcome(e.Action), e.Elapsed
		}
	}
	return e.Output
}

func (p *Package) test(name string) *Test {
	t, ok := p.tests[name]
	if !ok {
		t = &Test{Package: p.path, Name: name}
		p.tests[name] = t
		p.order = append(p.order, name)
	}
	return t
}

// Finish returns the leaf tests in the order in which they began, and the headings that failed by themselves. exit is
// the binary's error, nil if it ended well. A test that never ended (a crash, a time-out) has failed. If no test
// failed, a binary that ended badly or without a result makes the package fail. The package is then the last entry,
// without a test name.
func (p *Package) Finish(exit error) []Test {
	var leaves []Test
	for _, name := range p.order {
		if p.isHeading(name) && !p.failedItself(name) {
			continue
		}
		t := *p.tests[name]
		switch {
		case t.Outcome != "":
		case strings.HasPrefix(name, "Benchmark") && p.outcome == Pass && exit == nil:
			t.Outcome = Pass // a successful benchmark has no event for its end
		default:
			t.Outcome, t.Unended = Fail, true
			t.Output += "the test binary ended during this test, and tests after it did not run\n"
		}
		t.Output = p.headingsOutput(name) + t.Output
		leaves = append(leaves, t)
	}
	bad := exit != nil || p.outcome == "" || p.outcome == Fail
	failed := func(t Test) bool { return t.Outcome == Fail }
	switch i := slices.IndexFunc(leaves, failed); {
	case bad && i < 0:
		leaves = append(leaves, Test{Package: p.path, Outcome: Fail, Output: p.everything(exit)})
	case bad:
		leaves[i].Output += p.output.String() // a crash's trace may be there
	}
	return leaves
}

// Longest returns the n tests that took the longest, the longest first.
func Longest(tests []Test, n int) []Test {
	longerFirst := func(a, b Test) int { return cmp.Compare(b.Seconds, a.Seconds) }
	return slices.SortedStableFunc(slices.Values(tests), longerFirst)[:min(n, len(tests))]
}

// isHeading says whether a test of that name has subtests.
func (p *Package) isHeading(name string) bool {
	return slices.ContainsFunc(p.order, func(other string) bool { return strings.HasPrefix(other, name+"/") })
}

// failedItself says whether a heading failed or never ended although all its subtests ended well, as in a cleanup.
func (p *Package) failedItself(heading string) bool {
	return !p.endedWell(heading) && !slices.ContainsFunc(p.order, func(other string) bool {
		return strings.HasPrefix(other, heading+"/") && !p.endedWell(other)
	})
}

func (p *Package) endedWell(name string) bool {
	return p.tests[name].Outcome == Pass || p.tests[name].Outcome == Skip
}

func (p *Package) headingsOutput(name string) string {
	var out strings.Builder
	for i, c := range name {
		if t := p.tests[name[:i]]; c == '/' && t != nil {
			out.WriteString(t.Output)
		}
	}
	return out.String()
}

func (p *Package) everything(exit error) string {
	var out strings.Builder
	for _, name := range p.order {
		out.WriteString(p.tests[name].Output)
	}
	out.WriteString(p.output.String())
	if exit != nil {
		fmt.Fprintf(&out, "the test binary ended with: %v\n", exit)
	}
	return out.String()
}

// Count is the number of leaf tests by outcome.
type Count struct{ Passed, Failed, Skipped, Flaky int }

// CountOf counts tests.
func CountOf(tests []Test) Count {
	var c Count
	for _, t := range tests {
		switch t.Outcome {
		case Pass:
			c.Passed++
		case Fail:
			c.Failed++
		case Skip:
			c.Skipped++
		case Flaky:
			c.Flaky++
		}
	}
	return c
}

// String is the line that `make test` ends with.
func (c Count) String() string {
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
	if c.Flaky > 0 {
		text += fmt.Sprintf(", %d flaky", c.Flaky)
	}
	return text
}
