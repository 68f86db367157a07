package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

const loaded = `{"Pods": 3, "Rest": 30, "Churned": 60, "Churn": 5, "Probed": 30, "Probes": 180, "Engine": "installed", "Kubelet": "v1", "Servers": [
	{"Server": "criadapter", "Runtime": "docker 1", "Phases": {
		"up": {"Seconds": 5, "Ready": {"N": 3, "P50": 2, "P99": 4, "All": 4}, "CPU": {"server": 1, "engine": 2, "shims": 3, "kubelet": 4, "pods": 5}},
		"rest": {"Seconds": 30, "CPU": {"server": 0.5, "engine": 1, "shims": 0.5, "kubelet": 9, "pods": 9}, "Memory": {"server": 32, "engine": 100, "shims": 20, "kubelet": 99}, "Shims": 3},
		"churn": {"Seconds": 70, "Reached": 4.5, "Ready": {"N": 270, "P50": 1, "P99": 2}, "Gone": {"N": 270, "P50": 1.5, "P99": 2.5}, "CPU": {"server": 27, "engine": 27}},
		"probes": {"Seconds": 30, "Probes": {"PerMinute": 179.6, "Mean": 0.0423, "Failed": 1}}}},
	{"Server": "containerd", "Runtime": "containerd 2", "Phases": {
		"up": {"Seconds": 6, "CPU": {"server": 1}},
		"churn": {"Unfinished": "after 8m0s 3 pods\n are not", "Seconds": 1, "Reached": 9, "CPU": {"server": 1}}}}]}`

// TestReportOfLoadHasItsResults compares the report's tables and its picture with the kept results.
func TestReportOfLoadHasItsResults(t *testing.T) {
	wantDrawn(t, loadDocument, loadPicture, drawLoad)
}

// wantDrawn checks that a document and its picture, if there is one, are drawn from the kept results.
func wantDrawn(t *testing.T, document, picture string, draw func(text []byte) ([]byte, string, error)) {
	t.Helper()
	t.Chdir("../../..")
	text, err := os.ReadFile(document)
	testutil.Must(t, err)
	want, svg, err := draw(text)
	testutil.Assert(t, err == nil && bytes.Equal(text, want),
		"%s does not have the kept results, run: go run ./test/bench/draw (%v)", document, err)
	if svg == "" {
		return
	}
	if got, err := os.ReadFile(filepath.Join(figures, picture)); err != nil || string(got) != svg {
		t.Errorf("%s is not drawn from the result, run: go run ./test/bench/draw (%v)", picture, err)
	}
}

// New results of each engine are kept and written into its own section. Only the installed engine has a picture.
func TestLoadIsDrawn(t *testing.T) {
	from := t.TempDir()
	t.Chdir(t.TempDir())
	testutil.WriteFile(t, loadDocument, sections()[0].loadBegin()+end+"\n"+sections()[1].loadBegin()+end+"\n"+
		"<!-- load nodes -->\n"+end+"\n")
	testutil.Must(t, runLoad(""))
	text, _ := os.ReadFile(loadDocument)
	got := string(text)
	testutil.Equal(t, strings.Count(got, "Nothing was"), 3, "sections without results")
	for _, command := range []string{"ENGINE=29-containerd", "NODES=kubelet,kubelet-core"} {
		testutil.Assert(t, strings.Contains(got, "`make load "+command+"`"), "no %s in:\n%s", command, got)
	}
	testutil.WriteFile(t, filepath.Join(figures, "load.json"), `{"Pods": 1}`)
	testutil.WriteFile(t, filepath.Join(from, "result.json"), loaded)
	newest := strings.Replace(loaded, "installed", "29-containerd", 1)
	testutil.WriteFile(t, filepath.Join(from, "result-29-containerd.json"), newest)
	testutil.Must(t, runLoad(from))
	text, _ = os.ReadFile(loadDocument)
	first, second, _ := strings.Cut(string(text), sections()[1].loadBegin())
	for _, want := range []string{
		"3 pods of one container, kubelet v1, engine `installed`:", "|  | criadapter | containerd |",
		"| runs pods on | docker 1 | containerd 2 |",
		"| **up**: all are Ready after, s | 5.0 | 6.0 |",
		"| one is Ready after, s, p50 / p99 | 2.0 / 4.0 | 0.0 / 0.0 |",
		"| **churn** for 60 s: pods replaced a second, of 5 asked for | 4.50 | not finished |",
		"| **probes** for 30 s: a minute, of 180 asked for | 180 | not finished |",
		"| one takes, ms, mean | 42 |",
		"| **CPU**, s of server / engine / shims / kubelet / pods: up | 1.0 / 2.0 / 3.0 / 4.0 / 5.0 | 1.0 / – " +
			"/ – / – / – |",
		"| 30 s at rest | 0.5 / 1.0 / 0.5 / 9.0 / 9.0 | not finished |", "| rest | 32 / 100 / 20 / 99 | not finished |",
		"| **shims** at rest | 3 | not finished |",
		"- containerd did not finish `churn`: after 8m0s 3 pods are not\n", "](../figures/load.svg)",
	} {
		testutil.Assert(t, strings.Contains(first, want), "no %q in:\n%s", want, first)
	}
	testutil.Assert(t, strings.Contains(second, "`29-containerd`") && !strings.Contains(second, "load.svg"),
		"the second engine's part:\n%s", second)
	text, err := os.ReadFile(filepath.Join(figures, loadPicture))
	svg := string(text)
	if err != nil || wellFormed(svg) != nil || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("the picture: %v\n%s", err, svg)
	}
	// At rest the picture shows 4 s of CPU a minute (2 s in 30 s), and in churn 200 ms a pod (54 s for 270 pods). It
	// shows no churn of containerd, which did not finish.
	for want, times := range map[string]int{">4</text>": 1, ">200</text>": 1, ">4.5</text>": 1, ">152</text>": 1,
		">6</text>": 1, ">9</text>": 0} {
		got := strings.Count(svg, want)
		testutil.Assert(t, got == times, "%d of %s, want %d in:\n%s", got, want, times, svg)
	}
}
