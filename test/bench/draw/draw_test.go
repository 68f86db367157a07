package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestFiguresMatchTheResult compares pictures and tables with the kept measurements.
func TestFiguresMatchTheResult(t *testing.T) {
	t.Chdir("../../..")
	text, err := os.ReadFile(document)
	testutil.Must(t, err)
	var measured []*result
	for _, s := range sections() {
		r, err := s.read()
		if err != nil || s.drawn && r == nil {
			t.Fatalf("%s: %v", s.file(), err)
		}
		if r != nil {
			measured = append(measured, r)
		}
		for name, want := range s.pictures(r) {
			got, err := os.ReadFile(filepath.Join(figures, name))
			testutil.Assert(t, err == nil && string(got) == want,
				"%s is not drawn from the result, run: go run ./test/bench/draw (%v)", name, err)
			testutil.Check(t, wellFormed(want), name)
			testutil.Assert(t, !strings.Contains(want, "NaN") && !strings.Contains(want, "Inf"),
				"%s draws a value that is not a number", name)
		}
		if want, err := s.write(text, r); err != nil || !bytes.Equal(text, want) {
			t.Errorf("the tables of %s do not match %s, run: go run ./test/bench/draw (%v)", document, s.file(), err)
		}
	}
	text, err = os.ReadFile(front)
	testutil.Assert(t, err == nil && strings.Contains(string(text), summary(measured)),
		"the table of %s does not match the results, run: go run ./test/bench/draw (%v)", front, err)
}

// A new measurement is kept and written into its own section. The section of an engine that was not measured stays.
func TestMeasurementOfAnEngine(t *testing.T) {
	const whole = `{"versions": {"criadapter": "docker 29.8.0", "containerd": "containerd 2.4.2+unknown"}, "lives": {"pod up": {"criadapter": {"n": 3, "P50": 100}, "raw best": {"n": 3, "P50": 120}}},
		"lists": [{"pods": 1, "table": {"relist": {"criadapter": {"P50": 1}}}}], "usage": {"criadapter": {"server": {"rssKiB": 1024}}}}`
	from := t.TempDir()
	t.Chdir(t.TempDir())
	testutil.WriteFile(t, filepath.Join(figures, "result.json"), whole)
	testutil.WriteFile(t, document,
		"a\n<!-- figures -->\nold\n<!-- /figures -->\nb\n<!-- figures 29-containerd -->\n<!-- /figures -->\nc\n")
	testutil.WriteFile(t, front, "front\n<!-- figures -->\n<!-- /figures -->\n")
	testutil.Must(t, run(from))
	text, _ := os.ReadFile(document)
	if got := string(text); strings.Contains(got, "old") ||
		!strings.Contains(got, "Nothing was measured yet: `make bench ENGINE=29-containerd`") {
		t.Errorf("without a measurement:\n%s", got)
	}
	testutil.WriteFile(t, filepath.Join(from, "result-29-containerd.json"), whole)
	testutil.Must(t, run(from))
	text, _ = os.ReadFile(document)
	_, second, _ := strings.Cut(string(text), "29-containerd -->")
	if !strings.Contains(second, "Measured: criadapter on docker 29.8.0, containerd on containerd 2.4.2.") ||
		!strings.Contains(second, "| pod up | 100 |") || strings.Contains(second, "![") {
		t.Errorf("with a measurement:\n%s", second)
	}
	text, _ = os.ReadFile(front)
	if got := string(text); strings.Count(got, "| **docker 29.8.0 and containerd 2.4.2** |") != 2 ||
		strings.Count(got, "| pod up | 100 | – | 120 |") != 2 {
		t.Errorf("the front page lacks an engine:\n%s", got)
	}
	testutil.WriteFile(t, filepath.Join(from, "result-29-containerd.json"), `{"lives": {}}`)
	err := run(from)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "without PARTS"), "a part of a measurement: %v", err)
}

func TestOnlyWhatWasMeasuredIsShown(t *testing.T) {
	r := result{Lives: map[string]row{"pod up": {"criadapter": {N: 3, P50: 100}}}}
	r.Lists = append(r.Lists, struct {
		Pods  int
		Table map[string]row
	}{Pods: 5, Table: map[string]row{"relist": {"criadapter": {N: 3, P50: 0.5}, "containerd": {N: 3, P50: 2}}}})
	if text := r.tables(true); !strings.Contains(text, "| pod up | 100 | – |") ||
		!strings.Contains(text, "| 5: relist | 0.5 | 2 |") {
		t.Errorf("tables:\n%s", text)
	}
	svg := r.figures()["calls.svg"]
	testutil.Assert(t, strings.Count(svg, `height="12" fill`) == len(r.servers())+1, "want one bar:\n%s", svg)
}

func wellFormed(svg string) error {
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// The memory of a node is the sum over all its processes, divided by the number of pods.
func TestMemoryOfANode(t *testing.T) {
	var r result
	if err := json.Unmarshal([]byte(`{"lives": {"pod up": {"criadapter": {"n": 3, "P50": 100}}}, "lists": [{"pods": 60}],
		"nodes": {"pods": 2, "servers": {"criadapter": {"daemonsKiB": 4096, "podsKiB": 1024}}}}`), &r); err != nil {
		t.Fatal(err)
	}
	if text := r.tables(true); !strings.Contains(text,
		"| memory of everything with 2 pods of one container, MiB per pod | 2.5 |\n"+
			"| shims and containers of these pods, MiB | 1 |\n| server and engine with these pods, MiB | 4 |\n") {
		t.Errorf("tables:\n%s", text)
	}
	svg := r.figures()["memory.svg"]
	testutil.Assert(t, strings.Contains(svg, "all, MiB per pod") && strings.Contains(svg, ">2.5</text>"),
		"picture:\n%s", svg)
}

// The report shows each measured part, and each ratio that misses its goal.
func TestNothingMeasuredIsHidden(t *testing.T) {
	var r result
	testutil.Must(t, json.Unmarshal([]byte(`{"lives": {"pod up": {"criadapter": {"n": 3, "P50": 100},
		"containerd": {"n": 3, "P50": 80}}}, "lists": [{"pods": 60}],
		"images": {"PullImage of an image that is there": {"criadapter": {"n": 3, "P50": 20}}},
		"logs": {"criadapter": {"linesPerSecond": 1000, "serverCPUms": 1, "allCPUms": 5}},
		"rest": {"pods": 9, "quiet": {"criadapter": {"server": 0.5, "engine": 0.25}, "containerd": {"server": 1}}},
		"ratios": [{"name": "met", "value": 1, "goal": 2, "met": true},
			{"name": "pod-up-to-containerd", "value": 1.25, "goal": 1.2}]}`), &r))
	text := r.tables(false)
	for _, line := range []string{
		"| PullImage of an image that is there, ms | 20 | – |",
		"| lines of one log a second (more is better) | 1000 | – |",
		"| CPU time of 100 MB of logs, server and engine, ms | 5 | – |",
		"| CPU time of a minute at rest, 9 quiet pods, server + engine, s | 0.50 + 0.25 | 1.00 |",
		"1 of 2 ratios miss their goal:\n\n| ratio | value | goal, at most |\n|---|---|---|\n" +
			"| pod-up-to-containerd | 1.25 | 1.2 |\n",
	} {
		testutil.Assert(t, strings.Contains(text, line), "the report lacks %q:\n%s", line, text)
	}
	testutil.Assert(t, !strings.Contains(text, "| met |"), "a met goal is among the missed ones:\n%s", text)
}
