package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

const output = `=== RUN   TestGood
=== RUN   TestBad
=== RUN   TestBad/sub
    --- FAIL: TestBad/sub (0.00s)
some --- PASS: TestBad (0.00s)
--- FAIL: TestBad (1.00s)
--- PASS: TestGood (0.00s)
=== RUN   TestCrash
=== RUN   TestSkip
--- SKIP: TestSkip (0.00s)
`

const listed = `
- {runtime: containerd, cause: "it is bad there", outcome: fail, tests: [TestBad, TestCrash]}
- {runtime: containerd, cause: "it is not there", outcome: skip, tests: [TestSkip]}
`

func TestJudge(t *testing.T) {
	good := strings.NewReplacer("FAIL:", "PASS:", "SKIP:", "PASS:").Replace(output) + "--- PASS: TestCrash (0.00s)\n"
	for name, c := range map[string]struct {
		ours, theirs, list string
		strict             bool
		// fails says that judge returns an error. want has parts of the error, or of the output if there is no error.
		fails bool
		want  []string
	}{
		"listed": {good, output, listed, true, false,
			[]string{"TestBad", "it is bad there", "containerd: 1 of 4 pass", "criadapter: 4 of 4 pass"}},
		"not listed": {good, output, "[]", false, true,
			[]string{"TestBad on containerd: fail", "TestCrash on containerd: fail", "TestSkip on containerd: skip"}},
		"another outcome": {good, output, strings.Replace(listed, "skip", "fail", 1), false, true,
			[]string{"TestSkip on containerd: skip"}},
		"on the reference": {output, good, listed, false, true, []string{"TestBad on criadapter: fail"}},
		"no difference": {good, good, listed, false, false,
			[]string{"listed, but no difference: TestBad on containerd"}},
		"no difference, strict": {good, good, listed, true, true,
			[]string{"listed, but no difference: TestBad on containerd"}},
		"no such test": {good, good, strings.Replace(listed, "TestSkip", "TestGone", 1), true, true,
			[]string{"listed, but there is no such test: TestGone"}},
		"ran on one only": {good, "", "[]", false, true, []string{"TestGood on containerd: –"}},
		"nothing ran":     {"", "", "[]", false, true, []string{"no test ran"}},
	} {
		t.Run(name, func(t *testing.T) {
			differences, err := parseList([]byte(c.list))
			testutil.Must(t, err)
			table := newTable([]string{"criadapter", "containerd"})
			table.add("criadapter", c.ours)
			table.add("containerd", c.theirs)
			var out bytes.Buffer
			err = table.judge(&out, differences, true, c.strict)
			said := out.String()
			if err != nil {
				said = err.Error()
			}
			testutil.Assert(t, (err != nil) == c.fails, "error %v", err)
			for _, want := range c.want {
				testutil.Assert(t, strings.Contains(said, want), "no %q in\n%s", want, said)
			}
		})
	}
}

func TestParseListRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`[{runtime: containerd, outcome: fail, tests: [TestA]}]`:                     "has no cause",
		`[{runtime: criadapter, cause: c, outcome: fail, tests: [TestA]}]`:           "want one other than",
		`[{runtime: containerd, cause: c, outcome: pass, tests: [TestA]}]`:           "is neither",
		`[{runtime: containerd, cause: c, outcome: fail}]`:                           "has no tests",
		`[{runtime: containerd, cause: c, outcome: fail, tests: [TestA, TestA]}]`:    "listed twice",
		`[{runtime: containerd, cause: c, outcome: fail, tests: [TestA], extra: 1}]`: "extra",
	} {
		_, err := parseList([]byte(text))
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%s: %v, want %q", text, err, want)
	}
}

// TestListIsWellFormed reads the checked-in list.
func TestListIsWellFormed(t *testing.T) {
	text, err := os.ReadFile("../differences.yaml")
	testutil.Must(t, err)
	_, err = parseList(text)
	testutil.Check(t, err)
}
