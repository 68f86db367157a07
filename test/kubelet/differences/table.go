package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// reference is the runtime on which every test must pass.
const reference = "criadapter"

// table has the outcome of each test on each runtime.
type table struct {
	runtimes []string
	outcomes map[string]map[string]outcome // by test and runtime
}

func newTable(runtimes []string) *table {
	return &table{runtimes: runtimes, outcomes: map[string]map[string]outcome{}}
}

// Lines of go test -v. A test that begins and never ends has failed.
var (
	beginning = regexp.MustCompile(`^=== RUN   (Test[^/\s]*)$`)
	ending    = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (Test[^/\s]*) \(`)
)

// add takes the outcomes from the output of go test -v.
func (t *table) add(runtime, output string) {
	lines := bufio.NewScanner(strings.NewReader(output))
	lines.Buffer(nil, len(output)+1)
	for lines.Scan() {
		if match := beginning.FindStringSubmatch(lines.Text()); match != nil {
			t.set(match[1], runtime, failed)
		}
		if match := ending.FindStringSubmatch(lines.Text()); match != nil {
			t.set(match[2], runtime, outcome(strings.ToLower(match[1])))
		}
	}
}

func (t *table) set(test, runtime string, o outcome) {
	if t.outcomes[test] == nil {
		t.outcomes[test] = map[string]outcome{}
	}
	t.outcomes[test][runtime] = o
}

func (t *table) get(test, runtime string) outcome {
	if o, ok := t.outcomes[test][runtime]; ok {
		return o
	}
	return absent
}

// judge prints the table, and returns an error that lists the unexpected outcomes. whole says that all tests were to
// run. A run without tests is an error, too. With strict, so is a listed difference that does not exist.
func (t *table) judge(out io.Writer, listed list, whole, strict bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\ntest\t%s\t\n", strings.Join(t.runtimes, "\t"))
	var wrong, notes []string
	counts := map[string]int{}
	for _, test := range slices.Sorted(maps.Keys(t.outcomes)) {
		fmt.Fprintf(w, "%s\t", test)
		var why []string
		for _, runtime := range t.runtimes {
			got := t.get(test, runtime)
			want, cause := listed.expected(runtime, test)
			fmt.Fprintf(w, "%s\t", got)
			switch {
			case got == passed:
				counts[runtime]++
			case got == want:
				why = append(why, cause)
			default:
				why = append(why, "not listed")
				wrong = append(wrong, fmt.Sprintf("%s on %s: %s", test, runtime, got))
			}
			if got == passed && want != passed {
				notes = append(notes, fmt.Sprintf("listed, but no difference: %s on %s", test, runtime))
			}
		}
		fmt.Fprintln(w, strings.Join(why, "; "))
	}
	if whole {
		notes = append(notes, t.unknown(listed)...)
	}
	fmt.Fprintln(w)
	for _, runtime := range t.runtimes {
		fmt.Fprintf(w, "%s: %d of %d pass\n", runtime, counts[runtime], len(t.outcomes))
	}
	for _, note := range notes {
		fmt.Fprintln(w, note)
	}
	if strict {
		wrong = append(wrong, notes...)
	}
	if len(t.outcomes) == 0 {
		wrong = append(wrong, "no test ran")
	}
	if err := w.Flush(); err != nil || len(wrong) == 0 {
		return err
	}
	return errors.New(strings.Join(wrong, "\n"))
}

// unknown returns the listed tests that do not exist.
func (t *table) unknown(listed list) []string {
	var notes []string
	for _, g := range listed {
		for _, test := range g.Tests {
			if t.outcomes[test] == nil {
				notes = append(notes, "listed, but there is no such test: "+test)
			}
		}
	}
	return notes
}
