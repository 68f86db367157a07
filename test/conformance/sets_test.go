package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/cluster/controlplane"
)

// Every set has a unique name and patterns that Ginkgo understands.
func TestSets(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sets() {
		testutil.Assert(t, s.name != "" && s.what != "" && s.focus != "" && !seen[s.name], "set %+v", s)
		seen[s.name] = true
		for _, pattern := range []string{s.focus, s.skip} {
			_, err := regexp.Compile(pattern)
			testutil.Assert(t, err == nil, "%s: %v", s.name, err)
		}
		got, err := setNamed(s.name)
		testutil.Assert(t, err == nil && got == s, "%s: %+v, %v", s.name, got, err)
	}
	_, err := setNamed("none such")
	testutil.Assert(t, err != nil, "an unknown name gives a set")
}

// TestSuiteOfANode checks the arguments of each set's suite. Only the suite of a single node starts no services and
// gets a bearer token. Only the other suite gets a kubeconfig.
func TestSuiteOfANode(t *testing.T) {
	for _, chosen := range sets() {
		s := suite{
			programs: build.Programs{Specs: "specs"}, set: chosen, dir: "/dir",
			cluster: cluster{
				plane: &controlplane.ControlPlane{URL: "https://plane", Token: "t0ken", Admin: "admin.kubeconfig"}},
		}
		args := strings.Join(s.args("report.json"), " ")
		_, own, _ := strings.Cut(args, " specs -- ")
		node := chosen.suite() == build.NodeSuite
		if node != chosen.node || node != strings.Contains(own, "--start-services=false") ||
			node != strings.Contains(own, "--bearer-token=t0ken") ||
			node == strings.Contains(own, "--kubeconfig=admin.kubeconfig") || own == "" {
			t.Errorf("%s: %s", chosen.name, args)
		}
	}
	const spec = "[sig-node] [NodeConformance] Containers Lifecycle when A pod with restartable init containers " +
		"is terminating " +
		"should call sidecar container PreStop hook simultaneously"
	s, err := setNamed("sidecars")
	testutil.Assert(t, err == nil && s.has(spec), "%+v, %v has no %q", s, err, spec)
}

// No parallel set has specs for Windows, flaky specs, or specs that must run alone.
func TestParallelSetsLeaveOut(t *testing.T) {
	for _, name := range []string{
		"[sig-windows] Pods should start [NodeConformance]", "[sig-node] Pods should start [Flaky] [NodeConformance]",
		"[sig-node] Pods should start [Serial] [NodeConformance] [Conformance]",
	} {
		for _, s := range sets() {
			if s.alone {
				continue
			}
			testutil.Assert(t, !s.has(name), "the set %s has %q", s.name, name)
		}
	}
}
