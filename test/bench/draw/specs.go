package main

import (
	"os"
	"path/filepath"

	"github.com/criadapter/criadapter/test/program"
)

const (
	specsDocument  = "docs/reports/conformance.md"
	resultsDir     = figures + "/conformance"
	beginSets      = "<!-- sets -->\n"
	nothingYetSets = "Nothing was run yet: `make conformance` and then `make figures` write the table here.\n"
)

// specsResult has the fields of test/conformance's result that the report needs.
type specsResult struct {
	Set, What, Engine, Mode, Server, Kubelet string
	Passed, Failed, Skipped, LeftOut, Again  int
	Causes                                   []struct {
		Cause, Outcome string
		Specs          int
	}
	Seconds float64
	Calls   map[string]int
}

// runSpecs keeps the new results of specs and writes their report.
func runSpecs(from string) error {
	text, err := os.ReadFile(specsDocument)
	if err != nil {
		return err
	}
	if from != "" {
		if err := program.KeepFiles(resultsDir, from, "*.json"); err != nil {
			return err
		}
	}
	if text, err = drawSpecs(text); err != nil {
		return err
	}
	return os.WriteFile(specsDocument, text, 0o644)
}

// drawSpecs puts the tables of the kept results into the report.
func drawSpecs(text []byte) ([]byte, error) {
	results, err := readResults()
	if err != nil {
		return nil, err
	}
	if text, err = replaceBetween(text, specsDocument, beginSets, setsTables(results)); err != nil {
		return nil, err
	}
	if text, err = replaceBetween(text, specsDocument, beginCalls, callsTable(results)); err != nil {
		return nil, err
	}
	return replaceBetween(text, specsDocument, beginCore, coreTable(results))
}

func readResults() ([]specsResult, error) {
	files, err := filepath.Glob(filepath.Join(resultsDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var results []specsResult
	for _, file := range files {
		r, err := program.ReadJSON[specsResult](file)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}
