package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/program"
)

// suiteParts are the parts of make bench that are suites, and allSuites is their number.
const (
	suiteParts = "stress,critest"
	allSuites  = 2
)

// suitesResult has the fields of test/bench's result of other projects' suites that the report needs.
type suitesResult struct {
	Versions map[string]string
	Suites   []struct {
		Name, What string
		Rows       []struct {
			Name string
			// Median is in milliseconds, by server. Ratios compare criadapter with each peer.
			Median, Ratios map[string]float64
		}
		Failed map[string][]string
	}
}

// suitesFile is the name of the engine's result. suitesBegin is the marker before the engine's part of the document.
func (s section) suitesFile() string  { return strings.Replace(s.file(), "result", "suites", 1) }
func (s section) suitesBegin() string { return strings.Replace(s.begin(), "figures", "suites", 1) }

// runSuites keeps the new results of suites, and writes their tables.
func runSuites(from string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	for _, s := range sections() {
		if err := keep(from, s.suitesFile(), s.suitesFile(), checkSuites); err != nil {
			return err
		}
	}
	if text, err = drawSuites(text); err != nil {
		return err
	}
	return os.WriteFile(document, text, 0o644)
}

// checkSuites refuses a result that lacks a suite.
func checkSuites(text []byte) error {
	var r suitesResult
	err := json.Unmarshal(text, &r)
	if err == nil && len(r.Suites) != allSuites {
		err = fmt.Errorf("the result has %d of %d suites: run make bench PARTS=%s", len(r.Suites), allSuites,
			suiteParts)
	}
	return err
}

// drawSuites puts the tables of the kept results into the report.
func drawSuites(text []byte) ([]byte, error) {
	for _, s := range sections() {
		content := fmt.Sprintf("Nothing was measured yet: `make bench PARTS=%s%s` and then `make figures`\n"+
			"write the tables here.\n", suiteParts, s.variable())
		r, err := program.ReadJSON[suitesResult](filepath.Join(figures, s.suitesFile()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			content = r.tables()
		}
		if text, err = replaceBetween(text, document, s.suitesBegin(), content); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// tables has a table for each suite: a row for each figure, a column for each server and for each ratio.
func (r suitesResult) tables() string {
	ran := result{Versions: r.Versions}
	var out strings.Builder
	ran.versions(&out)
	for _, s := range r.Suites {
		head, rule := "| "+s.Name+" |", "|---|"
		for _, server := range ran.servers() {
			head, rule = head+" "+server.name+" |", rule+"---|"
		}
		for _, peer := range ran.servers()[1:] {
			head, rule = head+" to "+peer.name+" |", rule+"---|"
		}
		fmt.Fprintf(&out, "%s%s:\n\n%s\n%s\n", strings.ToUpper(s.What[:1]), s.What[1:], head, rule)
		for _, row := range s.Rows {
			fmt.Fprintf(&out, "| %s |", row.Name)
			for _, server := range ran.servers() {
				fmt.Fprintf(&out, " %s |", orDash(row.Median, server.name))
			}
			for _, peer := range ran.servers()[1:] {
				fmt.Fprintf(&out, " %s |", orDash(row.Ratios, peer.name))
			}
			fmt.Fprintln(&out)
		}
		fmt.Fprintln(&out)
		for _, server := range ran.servers() {
			if failed := len(s.Failed[server.name]); failed > 0 {
				fmt.Fprintf(&out, "Failures of %s on %s: %d.\n\n", s.Name, server.name, failed)
			}
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// orDash writes a value, or a dash if there is none.
func orDash(values map[string]float64, name string) string {
	if value, ok := values[name]; ok {
		return short(value)
	}
	return "–"
}
