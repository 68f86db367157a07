package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestReportOfSuitesHasItsResults compares the report's tables with the kept results.
func TestReportOfSuitesHasItsResults(t *testing.T) {
	t.Chdir("../../..")
	text, err := os.ReadFile(document)
	testutil.Must(t, err)
	want, err := drawSuites(text)
	testutil.Assert(t, err == nil && bytes.Equal(text, want),
		"%s does not have the kept results of suites, run: go run ./test/bench/draw (%v)", document, err)
}

// A new result is kept and written into its engine's part. A figure that a peer lacks is a dash.
func TestSuitesAreDrawn(t *testing.T) {
	from := t.TempDir()
	t.Chdir(t.TempDir())
	testutil.WriteFile(t, document, sections()[0].suitesBegin()+end+"\n"+sections()[1].suitesBegin()+end+"\n")
	testutil.WriteFile(t, filepath.Join(figures, "empty"), "")
	testutil.WriteFile(t, filepath.Join(from, "suites-29-containerd.json"), `{
		"versions": {"criadapter": "docker 29", "cri-dockerd": "docker 29", "containerd": "containerd 2.4.2+unknown"},
		"suites": [{"name": "suite v1", "what": "one call, ms", "failed": {"cri-dockerd": ["no", "no"]}, "rows": [
			{"name": "StopPod", "median": {"criadapter": 120.4, "containerd": 60}, "ratios": {"containerd": 2.01}}]},
			{"name": "suite v2", "what": "two calls, ms"}]}`)
	testutil.Must(t, runSuites(from))
	text, err := os.ReadFile(document)
	testutil.Must(t, err)
	for _, want := range []string{
		"Nothing was measured yet: `make bench PARTS=stress,critest` and",
		"Measured: criadapter on docker 29, cri-dockerd on docker 29, containerd on containerd 2.4.2.\n",
		"One call, ms:\n\n| suite v1 | criadapter | cri-dockerd | containerd | to cri-dockerd | to containerd |\n" +
			"|---|---|---|---|---|---|\n| StopPod | 120 | – | 60 | – | 2.01 |\n",
		"\nFailures of suite v1 on cri-dockerd: 2.\n\nTwo calls, ms:\n",
	} {
		testutil.Assert(t, strings.Contains(string(text), want), "no %q in:\n%s", want, text)
	}
	testutil.WriteFile(t, filepath.Join(from, "suites.json"), `{"suites": [{"name": "suite v1"}]}`)
	err = runSuites(from)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "1 of 2 suites"), "half a result: %v", err)
}
