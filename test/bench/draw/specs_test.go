package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cluster/build"
)

// TestReportOfSpecsHasItsResults compares the report's tables with the kept results.
func TestReportOfSpecsHasItsResults(t *testing.T) {
	t.Chdir("../../..")
	text, err := os.ReadFile(specsDocument)
	testutil.Must(t, err)
	if want, err := drawSpecs(text); err != nil || !bytes.Equal(text, want) {
		t.Errorf("%s does not have the kept results, run: go run ./test/bench/draw (%v)", specsDocument, err)
	}
}

// Results are kept. A dash or an empty cell stands for a missing measurement.
func TestSpecsResultsAreDrawn(t *testing.T) {
	from := t.TempDir()
	t.Chdir(t.TempDir())
	testutil.WriteFile(t, specsDocument, strings.Join([]string{beginSets, beginCalls, beginCore, ""}, end+"\n"))
	testutil.Must(t, runSpecs(""))
	text, _ := os.ReadFile(specsDocument)
	testutil.Assert(t, strings.Count(string(text), "Nothing was") == 3, "without results:\n%s", text)
	for name, content := range map[string]string{
		"fast": `"Set": "fast", "What": "a choice", "Server": "criadapter", "Kubelet": "` + build.Version + `",
			"Passed": 7, "Failed": 1, "Again": 2,
			"Causes": [{"Cause": "no such device", "Outcome": "failed", "Specs": 1}]`,
		"fast-containerd": `"Set": "fast", "What": "a choice", "Server": "containerd",
			"Kubelet": "` + build.Version + `", "Passed": 6, "Skipped": 2`,
		"fast-kubelet-1.9": `"Set": "fast", "Server": "criadapter", "Kubelet": "v1.9.0", "Passed": 8, "Seconds": 61.7,
			"Calls": {"Status": 5, "PodSandboxStatus": 70}`,
		"fast-kubelet-1.8": `"Set": "fast", "Server": "criadapter", "Kubelet": "v1.8.0", "Passed": 6, "Failed": 2,
			"Calls": {"Status": 4}`,
		"node-conformance-kubelet-core": `"Set": "node-conformance", "What": "all", "Server": "criadapter", 
			"Kubelet": "kubelet-core", "Passed": 5, "Failed": 1, "LeftOut": 2,
			"Causes": [{"Cause": "there is no such thing", "Outcome": "left out", "Specs": 2}]`,
	} {
		testutil.WriteFile(t, filepath.Join(from, name+".json"), `{"Engine": "installed", `+content+`}`)
	}
	testutil.Must(t, runSpecs(from))
	text, _ = os.ReadFile(specsDocument)
	for _, want := range []string{
		"| set | installed, no sandbox containers | containerd beside installed |\n|---|---|---|\n" +
			"| `fast`: a choice | 7, 1, 0 (2 again) | 6, 0, 2 |\n",
		"| cause | installed, no sandbox containers | containerd beside installed |\n|---|---|---|\n" +
			"| failed: no such device | 1 | |\n",
		"| kubelet | 1.8.0 | 1.9.0 |\n|---|---|---|\n| specs passed, failed | 6, 2 | 8, 0 |\n" +
			"| seconds | 0 | 62 |\n| PodSandboxStatus | – | 70 |\n| Status | 4 | 5 |\n",
		"| `node-conformance`: all | 5 | 1 | 0 | 2 |", "| `node-conformance` | 2 | left out | there is no such thing |",
	} {
		testutil.Assert(t, strings.Contains(string(text), want), "no %q in:\n%s", want, text)
	}
}
