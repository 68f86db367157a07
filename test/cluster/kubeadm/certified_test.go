package main

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/critest/report"
)

func TestNamesOfCertifiedRuns(t *testing.T) {
	for _, one := range []struct {
		mode string
		o    options
		want string
	}{
		{"", options{node2: runtimeCriadapter, family: familyIPv4}, "certified"},
		{"oci", options{node2: runtimeCriadapter, family: familyIPv4}, "certified-oci"},
		{"", options{node2: runtimeContainerd, family: familyIPv4, focus: "DNS"}, "focus-certified-containerd"},
		{"", options{node2: runtimeCriadapter, family: familyIPv4, network: networkCalico}, "certified-calico"},
	} {
		t.Setenv("RUNTIME_MODE", one.mode)
		testutil.Equal(t, one.o.certifiedName(), one.want, "the name of a run")
	}
}

func TestMissingSpecs(t *testing.T) {
	ran := []report.Spec{{Name: "a"}, {Name: "b"}}
	testutil.Must(t, missingSpecs(ran, []string{"b"}))
	err := missingSpecs(ran, []string{"a", "c", "d"})
	testutil.Assert(t, err != nil && strings.Count(err.Error(), "\n") == 1 && strings.Contains(err.Error(), "run: c"),
		"got %v", err)
}

// Each manifest is YAML, and takes its images from the registry.
func TestAddonManifests(t *testing.T) {
	testAddonManifests(t, routerSettings{})
	testAddonManifests(t, routerSettings{Router: true})
}

func testAddonManifests(t *testing.T, settings routerSettings) {
	t.Helper()
	files, err := addons.ReadDir("addons")
	testutil.Must(t, err)
	for _, file := range files {
		text, err := addonManifest(strings.TrimSuffix(file.Name(), ".yaml"), settings)
		testutil.Must(t, err)
		for document := range strings.SplitSeq(text, "\n---\n") {
			var object struct{ Kind string }
			testutil.Must(t, yaml.Unmarshal([]byte(document), &object))
			testutil.Assert(t, object.Kind != "", "%s has a document without a kind", file.Name())
		}
		testutil.Assert(t, strings.Count(text, "image: ") == strings.Count(text, "image: "+registryAddress+"/"),
			"%s pulls from elsewhere:\n%s", file.Name(), text)
	}
}

func TestJudge(t *testing.T) {
	specs := []report.Spec{{Name: "a", Outcome: report.Passed, Ran: true}, {Name: "b", Outcome: report.Skipped}}
	failed := []report.Spec{{Name: "a", Outcome: report.Failed, Ran: true}}
	expected := report.Expected{{Cause: "c", Outcome: report.Failed, Specs: []string{"a"}}}
	for name, one := range map[string]struct {
		specs    []report.Spec
		listed   []string
		expected report.Expected
		good     bool
	}{
		"as listed":                  {specs, []string{"a"}, nil, true},
		"by a pattern":               {specs, nil, nil, true},
		"no spec ran":                {specs[1:], nil, nil, false},
		"a listed one did not run":   {specs, []string{"a", "b"}, nil, false},
		"another one ran":            {specs, []string{"b"}, nil, false},
		"an unexpected failure":      {failed, []string{"a"}, nil, false},
		"an expected failure":        {failed, []string{"a"}, expected, true},
		"an expected failure passed": {specs, []string{"a"}, expected, false},
	} {
		err := judge(one.specs, one.listed, one.expected)
		testutil.Assert(t, (err == nil) == one.good, "%s: %v", name, err)
	}
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out}
	for _, piece := range []string{"SSS", "S\n[10:00:00] Prog", "ress: 1/2 tests completed\nSS", "S\n"} {
		_, err := p.Write([]byte(piece))
		testutil.Must(t, err)
	}
	testutil.Equal(t, out.String(), "[10:00:00] Progress: 1/2 tests completed\n", "the progress")
}
