package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFiguresAreThoseOfTheResult holds pictures and tables to the measurement that is kept beside them.
func TestFiguresAreThoseOfTheResult(t *testing.T) {
	t.Chdir("../../..")
	r, err := readResult(filepath.Join(figures, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range r.figures() {
		got, err := os.ReadFile(filepath.Join(figures, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is not drawn of the result, run: go run ./test/bench/draw (%v)", name, err)
		}
		if err := wellFormed(want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(want, "NaN") || strings.Contains(want, "Inf") {
			t.Errorf("%s draws what is no number", name)
		}
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := withTables(text, r); err != nil || !bytes.Equal(text, want) {
		t.Errorf("the tables of %s are not those of the result, run: go run ./test/bench/draw (%v)", document, err)
	}
}

func TestOnlyWhatWasMeasuredIsShown(t *testing.T) {
	r := result{Lives: map[string]row{"pod up": {"criadapter": {N: 3, P50: 100}}}}
	r.Lists = append(r.Lists, struct {
		Pods  int
		Table map[string]row
	}{Pods: 5, Table: map[string]row{"relist": {"criadapter": {N: 3, P50: 0.5}, "containerd": {N: 3, P50: 2}}}})
	if text := r.tables(); !strings.Contains(text, "| pod up | 100 | – | – |") || !strings.Contains(text, "| 5: relist | 0.5 | – | 2 |") {
		t.Errorf("tables:\n%s", text)
	}
	if svg := r.figures()["calls.svg"]; strings.Count(svg, `height="12" fill`) != len(servers())+1 {
		t.Errorf("not one bar:\n%s", svg)
	}
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
