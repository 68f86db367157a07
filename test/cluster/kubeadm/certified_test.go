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
		{"", options{node2: runtimeCriadapter}, "certified"},
		{"oci", options{node2: runtimeCriadapter}, "certified-oci"},
		{"", options{node2: runtimeContainerd, focus: "DNS"}, "focus-certified-containerd"},
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

func TestWithOCIRuntime(t *testing.T) {
	got, err := withOCIRuntime(`{"storage-driver": "overlay2"}`)
	testutil.Must(t, err)
	testutil.Equal(t, got, `{"runtimes":{"criadapter":{"path":"/usr/bin/criadapter-oci"}},"storage-driver":"overlay2"}`,
		"daemon.json")
}

// Each manifest is YAML, and takes its images from the registry.
func TestAddonManifests(t *testing.T) {
	files, err := addons.ReadDir("addons")
	testutil.Must(t, err)
	for _, file := range files {
		text, err := addonManifest(strings.TrimSuffix(file.Name(), ".yaml"))
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
