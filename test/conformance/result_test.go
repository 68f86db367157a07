package main

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// A left-out spec counts only if the set has it. Any other spec counts only if it ran.
func TestChosenSpecs(t *testing.T) {
	f := finished{
		set:     set{focus: `\[NodeConformance\]`, skip: `\[Serial\]`},
		leftOut: []string{"a [NodeConformance]", "b [NodeConformance] [Serial]", "c"},
		specs: []report.Spec{
			{Name: "a [NodeConformance]", Outcome: report.Skipped},
			{Name: "b [NodeConformance] [Serial]", Outcome: report.Skipped},
			{Name: "c", Outcome: report.Skipped}, {Name: "d [NodeConformance]", Outcome: report.Passed, Ran: true},
			{Name: "e [NodeConformance]", Outcome: report.Skipped, Ran: true},
		},
	}
	specs, others := f.chosen()
	got := make(map[string]report.Outcome)
	for _, spec := range specs {
		got[spec.Name] = spec.Outcome
	}
	want := map[string]report.Outcome{"a [NodeConformance]": report.LeftOut, "d [NodeConformance]": report.Passed,
		"e [NodeConformance]": report.Skipped}
	testutil.Assert(t, maps.Equal(got, want), "chosen: %v, want %v", got, want)
	wantOthers := []string{"b [NodeConformance] [Serial]", "c"}
	testutil.Assert(t, slices.Equal(slices.Sorted(maps.Keys(others)), wantOthers), "others: %v, want %v", others,
		wantOthers)
}

// keep writes no result for the emulated machine, because the rig's environment names another engine.
func TestResultOfMachineIsNotKept(t *testing.T) {
	o := options{server: single.Criadapter, kubelet: build.Release, node: machineNode, report: t.TempDir()}
	testutil.Must(t, o.keep(rigenv.Env{Engine: "installed"}, finished{set: set{name: "fast"}}, report.Verdict{}))
	kept, err := os.ReadDir(o.report)
	testutil.Must(t, err)
	testutil.Assert(t, len(kept) == 0, "%v is kept", kept)
}

// Runs with different settings have different names of results.
func TestRunNames(t *testing.T) {
	usual := options{server: single.Criadapter, kubelet: build.Release, node: single.Kubelet}
	old, core, peer := usual, usual, usual
	old.kubelet, core.node, peer.server = "1.34", single.KubeletCore, single.Containerd
	for want, o := range map[string]options{
		"fast": usual, "fast-kubelet-1.34": old, "fast-kubelet-core": core, "fast-containerd": peer,
	} {
		testutil.Equal(t, o.runName(rigenv.Env{Engine: "installed"}, set{name: "fast"}), want, "runName")
	}
}

// An unknown release or node is refused, and so is a release other than the default with the kubelet core.
func TestCheckNode(t *testing.T) {
	for _, wrong := range []options{
		{kubelet: "1.2", node: single.Kubelet}, {kubelet: build.Release, node: "cow"},
		{kubelet: "1.34", node: single.KubeletCore},
	} {
		err := wrong.checkNode()
		testutil.Assert(t, err != nil, "%+v is taken", wrong)
	}
	for _, release := range build.Releases() {
		testutil.Check(t, (options{kubelet: release, node: single.Kubelet}).checkNode())
	}
}

// A pattern replaces the set's pattern. It does not lift the limits of the set's suite and setting.
func TestChosenSet(t *testing.T) {
	for _, c := range []struct {
		set, node string
		good      bool
	}{
		{"sidecars", single.Kubelet, true}, {"sidecars", single.KubeletCore, true}, {"sidecars", machineNode, false},
		{"node-suite", single.KubeletCore, false}, {"evented-pleg", single.KubeletCore, false},
		{setFast, machineNode, true}, {"none such", single.Kubelet, false},
	} {
		for _, focus := range []string{"", "Ephemeral"} {
			chosen, err := options{set: c.set, node: c.node, focus: focus}.chosen()
			testutil.Assert(t, (err == nil) == c.good, "-set %s -node %s -focus %q: %v", c.set, c.node, focus, err)
			if err == nil && focus != "" && (chosen.focus != focus || chosen.name != "focus" || chosen.skip != "") {
				t.Errorf("-set %s -focus %s: %+v", c.set, focus, chosen)
			}
		}
	}
}
