package main

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/results"
)

// Each failed test is a binary of its own in the second run, with a pattern for that test alone.
func TestPlanOfTheSecondRun(t *testing.T) {
	p := testPlan{
		Binaries: []testBinary{{Package: "pods"}, {Package: "logs"}},
		Label:    " on other", Args: []string{"-test.count=2"}, Timeout: time.Minute,
	}
	var out bytes.Buffer
	again := p.secondRun(&out, []results.Test{
		{Package: "pods", Name: "TestA/x", Outcome: results.Fail},
		{Package: "pods", Name: "TestB", Outcome: results.Fail},
		{Package: "logs", Name: "TestC", Outcome: results.Pass},
	})
	var args [][]string
	for _, b := range again.Binaries {
		args = append(args, append([]string{b.Package}, b.args(again)...))
	}
	want := [][]string{
		{"pods", "-test.timeout=1m0s", "-test.run=^TestA$"},
		{"pods", "-test.timeout=1m0s", "-test.run=^TestB$"},
	}
	testutil.Assert(t, slices.EqualFunc(args, want, slices.Equal), "arguments %v", args)
	testutil.Equal(t, out.String(),
		"again, alone: pods on other TestA\nagain, alone: pods on other TestB\n", "the output")
	got := p.Binaries[1].args(p)
	testutil.Assert(t, slices.Equal(got, p.Args), "arguments of the first run %v", got)
}
