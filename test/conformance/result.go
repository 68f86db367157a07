package main

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// finished is an ended run of specs.
type finished struct {
	set     set
	leftOut []string
	specs   []report.Spec
	took    time.Duration
	// calls counts the calls to the CRI server during the run, by method.
	calls map[string]int
}

// chosen returns the specs that ran and the left-out specs of the set, and the names of all other specs.
func (f finished) chosen() (specs []report.Spec, others map[string]bool) {
	others = make(map[string]bool)
	for _, spec := range f.specs {
		if !spec.Ran && slices.Contains(f.leftOut, spec.Name) && f.set.has(spec.Name) {
			spec.Outcome = report.LeftOut
		}
		if spec.Ran || spec.Outcome == report.LeftOut {
			specs = append(specs, spec)
		} else {
			others[spec.Name] = true
		}
	}
	return specs, others
}

// result is the part of a run that is kept for the documents' tables.
type result struct {
	Set, What, Engine, Mode, Server, Kubelet string
	Passed, Failed, Skipped, LeftOut         int
	// Again counts the specs that failed at first and passed when repeated.
	Again int
	// Causes has the listed causes, each with the number of specs that it explains. Failures has the names of the
	// failed specs.
	Causes   []report.Cause
	Failures []string `json:",omitempty"`
	// Seconds is how long the specs took, and Calls counts the calls to the CRI server during the run, by method.
	Seconds float64
	Calls   map[string]int `json:",omitempty"`
}

// failures returns the names of the failed specs.
func failures(specs []report.Spec) []string {
	var names []string
	for _, spec := range specs {
		if spec.Outcome == report.Failed {
			names = append(names, spec.Name)
		}
	}
	return names
}

// keep writes the result of a run of a set into the report's directory. A result on the emulated machine is not kept:
// its engine is not the rig's, and the tables have no column for it.
func (o options) keep(env rigenv.Env, f finished, v report.Verdict) error {
	if o.focus != "" || o.node == machineNode {
		return nil
	}
	kubelet, err := o.kubeletVersion()
	if err != nil {
		return err
	}
	specs, _ := f.chosen()
	r := result{
		Set: f.set.name, What: f.set.what, Engine: env.Engine, Mode: env.Mode, Server: o.server, Kubelet: kubelet,
		Passed: v.Passed, Failed: v.Failed, Skipped: v.Skipped, LeftOut: v.LeftOut,
		Again: len(v.Again), Causes: v.Causes, Failures: failures(specs),
		Seconds: f.took.Seconds(), Calls: f.calls,
	}
	return program.WriteJSON(filepath.Join(o.report, o.runName(env, f.set)+".json"), r)
}

// kubeletVersion is the version of the real kubelet, or the name of the kubelet core, which has no version.
func (o options) kubeletVersion() (string, error) {
	if o.node == single.KubeletCore {
		return single.KubeletCore, nil
	}
	return build.KubeletVersion(o.kubelet)
}
