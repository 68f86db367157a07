package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/test/cluster/build"
)

// The document of real nodes has the tables and the picture of what is kept.
func TestNodeDocumentIsOfItsResults(t *testing.T) {
	t.Chdir("../../..")
	text, err := os.ReadFile(nodeDocument)
	if err != nil {
		t.Fatal(err)
	}
	want, svg, err := drawNode(text)
	if err != nil || !bytes.Equal(text, want) {
		t.Errorf("%s is not of its results, run: go run ./test/bench/draw (%v)", nodeDocument, err)
	}
	if svg == "" {
		return
	}
	if got, err := os.ReadFile(filepath.Join(figures, loadPicture)); err != nil || string(got) != svg {
		t.Errorf("%s is not drawn of the result, run: go run ./test/bench/draw (%v)", loadPicture, err)
	}
}

// emptyNodeDocument has the parts that are drawn, and nothing else.
func emptyNodeDocument() string {
	return strings.Join([]string{beginSets, beginCalls, beginCore, sections()[0].loadBegin(), sections()[1].loadBegin(), ""}, end+"\n")
}

// Results are kept, and a part that a server does not have is a dash.
func TestNodeResultsAreDrawn(t *testing.T) {
	from := t.TempDir()
	t.Chdir(t.TempDir())
	write := func(path, content string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(figures, 0o755); err != nil {
		t.Fatal(err)
	}
	write(nodeDocument, emptyNodeDocument())
	if err := runNode("", ""); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(nodeDocument); strings.Count(string(text), "Nothing was") != 5 || !strings.Contains(string(text), "`make load ENGINE=29-containerd`") {
		t.Errorf("without results:\n%s", text)
	}
	write(filepath.Join(from, "fast.json"), `{"Set":"fast","What":"a choice","Engine":"installed","Server":"criadapter","Kubelet":"`+build.Version+`","Passed":7,"Failed":1,
		"Again":2,"Causes":[{"Cause":"no such device","Outcome":"failed","Specs":1}]}`)
	write(filepath.Join(from, "fast-containerd.json"), `{"Set":"fast","What":"a choice","Engine":"installed","Server":"containerd","Kubelet":"`+build.Version+`","Passed":6,"Skipped":2}`)
	write(filepath.Join(from, "fast-kubelet-1.9.json"), `{"Set":"fast","Engine":"installed","Server":"criadapter","Kubelet":"v1.9.0","Passed":8,"Seconds":61.7,
		"Calls":{"Status":5,"PodSandboxStatus":70}}`)
	write(filepath.Join(from, "fast-kubelet-1.8.json"), `{"Set":"fast","Engine":"installed","Server":"criadapter","Kubelet":"v1.8.0","Passed":6,"Failed":2,
		"Calls":{"Status":4}}`)
	write(filepath.Join(from, "node-conformance-kubelet-core.json"), `{"Set":"node-conformance","What":"all","Engine":"installed","Server":"criadapter","Kubelet":"kubelet-core",
		"Passed":5,"Failed":1,"LeftOut":2,"Causes":[{"Cause":"there is no such thing","Outcome":"left out","Specs":2}]}`)
	if err := runNode(from, ""); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(nodeDocument)
	for _, want := range []string{
		"| set | installed, no sandbox containers | containerd beside installed |\n|---|---|---|\n| `fast`: a choice | 7, 1, 0 (2 again) | 6, 0, 2 |\n",
		"| cause | installed, no sandbox containers | containerd beside installed |\n|---|---|---|\n| failed: no such device | 1 | |\n",
		"| kubelet | 1.8.0 | 1.9.0 |\n|---|---|---|\n| specs passed, failed | 6, 2 | 8, 0 |\n| seconds | 0 | 62 |\n| PodSandboxStatus | – | 70 |\n| Status | 4 | 5 |\n",
		"| `node-conformance`: all | 5 | 1 | 0 | 2 |", "| `node-conformance` | 2 | left out | there is no such thing |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
