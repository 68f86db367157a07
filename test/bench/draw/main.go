// Command draw draws the figures of docs/comparison.md, and writes its tables, from what `make bench` measured:
//
//	go run ./test/bench/draw [-from build/bench/result.json]
//
// Without -from it draws what was measured last, which docs/figures/result.json keeps. Nothing is drawn that was not measured.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

const (
	figures  = "docs/figures"
	document = "docs/comparison.md"
)

func main() {
	from := flag.String("from", "", "the `file` of a new measurement, which is kept; empty: draw the last one again")
	flag.Parse()
	if err := run(*from); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

func run(from string) error {
	kept := filepath.Join(figures, "result.json")
	if from != "" {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(kept, text, 0o644); err != nil {
			return err
		}
	}
	r, err := readResult(kept)
	if err != nil {
		return err
	}
	for name, svg := range r.figures() {
		if err := os.WriteFile(filepath.Join(figures, name), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text, err = withTables(text, r)
	if err != nil {
		return err
	}
	return os.WriteFile(document, text, 0o644)
}

// Markers around the part of the document that is written here.
const (
	begin = "<!-- figures -->\n"
	end   = "<!-- /figures -->"
)

// withTables puts the tables of a result into the document.
func withTables(text []byte, r result) ([]byte, error) {
	before, rest, found := bytes.Cut(text, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return nil, fmt.Errorf("%s has no %s … %s", document, begin, end)
	}
	return bytes.Join([][]byte{before, []byte(begin), []byte(r.tables()), []byte(end), after}, nil), nil
}

// result is what is read of a measurement, as test/bench writes it.
type result struct {
	Lives, Storms map[string]row
	Lists         []struct {
		Pods  int
		Table map[string]row
	}
	Logs  map[string]struct{ LinesPerSecond, ServerCPUms, AllCPUms float64 }
	Usage map[string]struct {
		Server struct{ RSSKiB float64 }
		// ServerCPU and EngineCPU are nanoseconds for a number of relists.
		ServerCPU, EngineCPU float64
	}
}

// row is one thing that was measured, by server.
type row map[string]struct {
	N             int
	P50, P90, P99 float64
}

func readResult(path string) (result, error) {
	var r result
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Lives) == 0 || len(r.Lists) == 0 || len(r.Usage) == 0 {
		return r, fmt.Errorf("%s has not all parts: run make bench without PARTS", path)
	}
	return r, nil
}
