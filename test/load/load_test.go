package main

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

func TestOptions(t *testing.T) {
	read := func(args ...string) (options, error) { return readFlags(args, &strings.Builder{}) }
	o, err := read()
	if err != nil || o.pods != 100 || o.rest != time.Minute || o.churned != 5*time.Minute || len(o.servers) != 3 {
		t.Errorf("by default: %+v, %v", o, err)
	}
	o, err = read("-quick", "-churned", "7s", "-servers", "criadapter,containerd")
	if err != nil || o.rest != 20*time.Second || o.probed != 30*time.Second || o.churned != 7*time.Second ||
		!slices.Equal(o.servers, []string{"criadapter", "containerd"}) {
		t.Errorf("quick: %+v, %v", o, err)
	}
	o, err = read("-nodes", "kubelet,kubelet-core")
	file := o.file(rigenv.Env{Engine: "29-containerd"})
	testutil.Assert(t, err == nil && file == "result-nodes-29-containerd.json", "nodes: %s, %v", file, err)
	testutil.Assert(t, slices.Equal(o.columns(), []column{{"kubelet", "criadapter", "kubelet"},
		{"kubelet-core", "criadapter", "kubelet-core"}}), "nodes: %v", o.columns())
	for _, args := range [][]string{{"-nodes", "k3s"}, {"-pods", "501"}, {"-pods", "0"}, {"-churn", "0"},
		{"-rest", "0s"}, {"-servers", "crio"}, {"more"}, {"-unknown"}} {
		_, err := read(args...)
		testutil.Assert(t, err != nil, "%q is not an error", args)
	}
	var help strings.Builder
	_, err = readFlags([]string{"-help"}, &help)
	testutil.Assert(t, errors.Is(err, flag.ErrHelp), "help: %v", err)
	for _, phase := range (&node{}).phases() {
		testutil.Assert(t, strings.Contains(help.String(), "\n  "+phase.name+" "),
			"the help does not name the phase %s:\n%s", phase.name, help.String())
	}
}

func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(i+1)*time.Second)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		testutil.Equal(t, quantile(all, q), want, "quantile %v", q)
	}
	testutil.Equal(t, quantile(nil, 0.5), 0, "quantile of no times")
}

func TestFilesOfEngines(t *testing.T) {
	for name, want := range map[string]string{engine.Installed: "result.json",
		"29-containerd": "result-29-containerd.json", "/opt/dockerd": "result-dockerd.json"} {
		testutil.Equal(t, forEngine("result", name, ".json"), want, "%s", name)
	}
}

func TestParseUsage(t *testing.T) {
	got, err := parseUsage("1500000\n", false)
	testutil.Assert(t, err == nil && got == 1500*time.Microsecond, "version 1: %v, %v", got, err)
	got, err = parseUsage("usage_usec 1500\nuser_usec 900\n", true)
	testutil.Assert(t, err == nil && got == 1500*time.Microsecond, "version 2: %v, %v", got, err)
	for _, v2 := range []bool{false, true} {
		_, err := parseUsage("user_usec 900\n", v2)
		testutil.Assert(t, err != nil, "nothing is not an error (version 2: %t)", v2)
	}
}

// CPU times are differences, and never negative.
func TestCPUSince(t *testing.T) {
	got := cpuTimes{partServer: 3 * time.Second,
		partShims: time.Second}.minus(cpuTimes{partServer: time.Second, partShims: 2 * time.Second})
	testutil.Assert(t, got[partServer] == 2 && got[partShims] == 0 && len(got) == 2, "%v", got)
}

func TestUnfinishedPhases(t *testing.T) {
	f := figures{Phases: map[string]measured{phaseUp: {}, phaseRest: {Unfinished: "x"}, phaseChurn: {Unfinished: "y"}}}
	got := f.unfinished()
	testutil.Assert(t, slices.Equal(got, []string{phaseChurn, phaseRest}), "%v", got)
	testutil.Equal(t, f.Phases[phaseRest].String(), "not finished: x", "printed")
}
