package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

const scaled = `{"versions": {"criadapter-oci": "docker 1", "containerd": "containerd 2"}, "scale": [
	{"with": "1000 dead containers", "memoryKiB": {"criadapter-oci": 2048, "containerd": 4096}, "table": {
		"ListContainers": {"criadapter-oci": {"n": 3, "P50": 2}, "containerd": {"n": 3, "P50": 5}},
		"list of the engine": {"criadapter-oci": {"n": 1, "P50": 50}}}}]}`

// TestReportOfScaleHasItsResult compares the report's tables and its picture with the kept result.
func TestReportOfScaleHasItsResult(t *testing.T) {
	wantDrawn(t, scaleDocument, scalePicture, drawScale)
}

// TestScaleIsDrawn keeps a new result and draws it.
func TestScaleIsDrawn(t *testing.T) {
	from := t.TempDir()
	t.Chdir(t.TempDir())
	testutil.WriteFile(t, scaleDocument, "<!-- scale -->\n"+end+"\n")
	testutil.WriteFile(t, filepath.Join(figures, "other"), "")
	testutil.Must(t, runScale(""))
	text, _ := os.ReadFile(scaleDocument)
	testutil.Assert(t, strings.Contains(string(text), "Nothing was measured yet"), "without a result:\n%s", text)
	testutil.WriteFile(t, filepath.Join(from, scaleFile), scaled)
	testutil.Must(t, runScale(from))
	text, _ = os.ReadFile(scaleDocument)
	for _, want := range []string{
		"Measured: criadapter-oci on docker 1, containerd on containerd 2.", "With 1000 dead containers, median",
		"|  | criadapter-oci | containerd |", "| ListContainers | 2 | 5 |", "| list of the engine | 50 | – |",
		"| memory of the server, MiB | 2 | 4 |",
	} {
		testutil.Assert(t, strings.Contains(string(text), want), "no %q in:\n%s", want, text)
	}
	svg, err := os.ReadFile(filepath.Join(figures, scalePicture))
	testutil.Assert(t, err == nil && strings.Contains(string(svg), "1000 dead: ListContainers"), "%v: %s", err, svg)
}
