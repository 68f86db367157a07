package main

import (
	"fmt"
	"io"

	"github.com/criadapter/criadapter/test/rig/results"
)

// args returns the binary's arguments.
func (b testBinary) args(p testPlan) []string {
	if b.Only == "" {
		return p.Args
	}
	return []string{"-test.timeout=" + p.Timeout.String(), "-test.run=^" + b.Only + "$"}
}

// secondRun returns the plan for the failed tests: each runs a second time, alone. On a busy machine a real engine,
// kernel or plugin may answer too late once, whereas a wrong test fails again. The plan has no binaries when nothing
// runs again.
func (p testPlan) secondRun(w io.Writer, tests []results.Test) testPlan {
	names, left := results.Again(tests)
	var binaries []testBinary
	for _, b := range p.Binaries {
		for _, name := range names[b.Package] {
			fmt.Fprintf(w, "again, alone: %s%s %s\n", b.Package, p.Label, name)
			b.Only = name
			binaries = append(binaries, b)
		}
	}
	if left > 0 {
		fmt.Fprintf(w, "not again: %d more tests that failed%s\n", left, p.Label)
	}
	p.Binaries = binaries
	return p
}
