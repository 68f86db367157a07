package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/results"
)

// TestReport counts the events of three packages, one of which does not build.
func TestReport(t *testing.T) {
	events := strings.Join([]string{
		`go: no event`,
		`{"ImportPath":"c","Action":"build-output","Output":"c.go:1:1: expected 'package'\n"}`,
		`{"Action":"run","Package":"a","Test":"TestGood"}`,
		`{"Action":"pass","Package":"a","Test":"TestGood"}`,
		`{"Action":"run","Package":"b","Test":"TestRig"}`,
		`{"Action":"output","Package":"b","Test":"TestRig","Output":"    b_test.go:12: needs the rig: make test\n"}`,
		`{"Action":"skip","Package":"b","Test":"TestRig"}`,
		`{"Action":"run","Package":"b","Test":"TestBad"}`,
		`{"Action":"output","Package":"b","Test":"TestBad","Output":"    b_test.go:20: got 1\n"}`,
		`{"Action":"fail","Package":"b","Test":"TestBad"}`,
		`{"Action":"pass","Package":"a"}`,
		`{"Action":"fail","Package":"b"}`,
		`{"Action":"fail","Package":"c"}`,
	}, "\n")
	var out bytes.Buffer
	tests, err := collect(strings.NewReader(events), &out)
	testutil.Must(t, err)
	count := report(tests, &out)
	testutil.Equal(t, count, results.Count{Passed: 1, Failed: 2, Skipped: 1}, "counted")
	for _, want := range []string{
		"go: no event\n", "c.go:1:1: expected",
		"--- b TestBad", "b_test.go:20: got 1", "1 tests left out: needs the rig: make test",
	} {
		testutil.Assert(t, strings.Contains(out.String(), want), "%q is missing in\n%s", want, &out)
	}
}
