package report

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// inJUnit is a report with testcases.
func inJUnit(cases string) string {
	return `<?xml version="1.0"?><testsuites><testsuite name="Kubernetes e2e suite">` + cases +
		`</testsuite></testsuites>`
}

func TestParseJUnit(t *testing.T) {
	got, err := ParseJUnit(strings.NewReader(inJUnit(`
		<testcase name="[SynchronizedBeforeSuite]" status="passed" time="1"></testcase>
		<testcase name="[It] a passes" status="passed" time="1.5"></testcase>
		<testcase name="[It] a fails" status="failed" time="2"><failure type="failed">too late</failure></testcase>
		<testcase name="[It] a panics" status="panicked" time="0"><error type="panicked">nil</error></testcase>
		<testcase name="[It] a skips itself" status="skipped" time="0"><skipped message="skipped - no GPU"/></testcase>
		<testcase name="[It] a is left out" status="skipped" time="0"><skipped message="skipped"/></testcase>`)))
	testutil.Must(t, err)
	want := []Spec{
		{Name: "a passes", Outcome: Passed, Ran: true, Took: 1500 * time.Millisecond},
		{Name: "a fails", Outcome: Failed, Ran: true, Message: "too late", Took: 2 * time.Second},
		{Name: "a panics", Outcome: Failed, Ran: true, Message: "nil"},
		{Name: "a skips itself", Outcome: Skipped, Ran: true, Message: "skipped - no GPU"},
		{Name: "a is left out", Outcome: Skipped, Message: "skipped"},
	}
	testutil.Assert(t, reflect.DeepEqual(got, want), "got %+v\nwant %+v", got, want)
}

func TestParseJUnitRefuses(t *testing.T) {
	const spec = `<testcase name="[It] a" status="passed"></testcase>`
	for name, text := range map[string]string{
		"nothing":  ``,
		"cut off":  strings.TrimSuffix(inJUnit(spec), "</testsuites>"),
		"no suite": `<testsuites></testsuites>`,
		"two suites": `<testsuites><testsuite>` + spec + `</testsuite><testsuite>` + spec +
			`</testsuite></testsuites>`,
		"no specs":       inJUnit(``),
		"one name twice": inJUnit(spec + spec),
		"set-up failed":  inJUnit(spec + `<testcase name="[SynchronizedBeforeSuite]" status="failed"></testcase>`),
		"clean-up crash": inJUnit(spec + `<testcase name="[AfterSuite]" status="panicked"></testcase>`),
	} {
		specs, err := ParseJUnit(strings.NewReader(text))
		testutil.Assert(t, err != nil, "%s: got %+v", name, specs)
	}
}

func FuzzParseJUnit(f *testing.F) {
	f.Add(inJUnit(`<testcase name="[It] a" status="passed" time="1"></testcase>`))
	f.Fuzz(func(t *testing.T, text string) {
		if specs, err := ParseJUnit(strings.NewReader(text)); err == nil && len(specs) == 0 {
			t.Error("neither specs nor an error")
		}
	})
}
