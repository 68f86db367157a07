package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	nodeDocument   = "docs/conformance.md"
	resultsDir     = figures + "/conformance"
	beginSets      = "<!-- sets -->\n"
	nothingYetSets = "Nothing was run yet: `make conformance` and then `make figures` write the table here.\n"
)

// specsResult is what is read of a run of specs, as test/conformance writes it.
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

// runNode keeps new results, and writes the document of what real nodes did.
func runNode(conformance, load string) error {
	text, err := os.ReadFile(nodeDocument)
	if err != nil {
		return err
	}
	if err := errors.Join(keepResults(conformance), keepLoad(load)); err != nil {
		return err
	}
	text, svg, err := drawNode(text)
	if err != nil {
		return err
	}
	if svg != "" {
		err = os.WriteFile(filepath.Join(figures, loadPicture), []byte(svg), 0o644)
	}
	return errors.Join(err, os.WriteFile(nodeDocument, text, 0o644))
}

// keepResults copies new results of whole sets to those that are kept.
func keepResults(from string) error {
	if from == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(from, "*.json"))
	if err := errors.Join(err, os.MkdirAll(resultsDir, 0o755)); err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(resultsDir, filepath.Base(file)), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drawNode puts what is kept into the text, and draws the picture if there is something to draw.
func drawNode(text []byte) (_ []byte, svg string, err error) {
	results, err := readResults()
	if err != nil {
		return nil, "", err
	}
	if text, err = between(text, nodeDocument, beginSets, setsTables(results)); err != nil {
		return nil, "", err
	}
	if text, err = between(text, nodeDocument, beginCalls, callsTable(results)); err != nil {
		return nil, "", err
	}
	if text, err = between(text, nodeDocument, beginCore, coreTable(results)); err != nil {
		return nil, "", err
	}
	return drawLoad(text)
}

func readResults() ([]specsResult, error) {
	files, err := filepath.Glob(filepath.Join(resultsDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var results []specsResult
	for _, file := range files {
		r, err := readJSON[specsResult](file)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func readJSON[T any](path string) (T, error) {
	var value T
	text, err := os.ReadFile(path)
	if err != nil {
		return value, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&value); err != nil {
		return value, fmt.Errorf("%s: %w", path, err)
	}
	return value, nil
}
