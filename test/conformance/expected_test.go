package main

import (
	"os"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/critest/report"
)

// The checked-in lists are well-formed, and no spec is in both.
func TestExpectedFiles(t *testing.T) {
	listed := make(map[string]bool)
	for _, file := range []string{"expected.yaml", "expected-core.yaml"} {
		text, err := os.ReadFile(file)
		testutil.Must(t, err)
		expected, err := report.ParseExpected(text)
		testutil.Require(t, err == nil, "%s: %v", file, err)
		for _, group := range expected {
			for _, name := range group.Specs {
				testutil.Assert(t, !listed[name], "both lists have %[2]q, %[1]s is the second", file, name)
				listed[name] = true
			}
		}
	}
}
