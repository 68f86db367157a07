package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	nodeDocument   = "docs/conformance.md"
	resultsDir     = figures + "/conformance"
	loadFile       = figures + "/load.json"
	loadPicture    = "load.svg"
	beginSets      = "<!-- sets -->\n"
	beginLoad      = "<!-- load -->\n"
	nothingYetSets = "Nothing was run yet: `make conformance` and then `make figures` write the table here.\n"
	nothingYetLoad = "Nothing was measured yet: `make load` and then `make figures` write the table here.\n"
)

// specsResult is what is read of a run of specs, as test/conformance writes it.
type specsResult struct {
	Set, What, Engine, Mode, Server, Kubelet string
	Passed, Failed, Skipped, LeftOut         int
	Causes                                   []struct {
		Cause, Outcome string
		Specs          int
	}
	Seconds float64
	Calls   map[string]int
}

// loadResult is what is read of a full node, as test/load writes it.
type loadResult struct {
	Pods            int
	Rest, Churned   float64
	Churn           int
	Engine, Kubelet string
	Servers         []serverLoad
}

// serverLoad is one server's part of it.
type serverLoad struct {
	Server          string
	Up, Churn, Gone struct {
		N             int
		P50, P99, All float64
	}
	UpCPU, RestCPU    map[string]float64
	ChurnCPU, GoneCPU map[string]float64
	Memory            map[string]float64
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

func keepLoad(from string) error {
	if from == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(from, "result.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(loadFile, text, 0o644)
}

// drawNode puts what is kept into the text, and draws the picture if there is something to draw.
func drawNode(text []byte) (_ []byte, svg string, err error) {
	results, err := readResults()
	if err != nil {
		return nil, "", err
	}
	sets := nothingYetSets
	if len(results) > 0 {
		sets = specsTable(results)
	}
	if text, err = between(text, nodeDocument, beginSets, sets); err != nil {
		return nil, "", err
	}
	if text, err = between(text, nodeDocument, beginCalls, callsTable(results)); err != nil {
		return nil, "", err
	}
	loaded, err := readJSON[loadResult](loadFile)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = between(text, nodeDocument, beginLoad, nothingYetLoad)
		return text, "", err
	}
	if err != nil {
		return nil, "", err
	}
	text, err = between(text, nodeDocument, beginLoad, loaded.table())
	return text, loaded.picture(), err
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

// specsTable has a row a run.
func specsTable(results []specsResult) string {
	var out strings.Builder
	fmt.Fprint(&out, "| set | server | engine | kubelet | passed | failed | skipped | because |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		var causes []string
		for _, cause := range r.Causes {
			causes = append(causes, fmt.Sprintf("%d: %s", cause.Specs, cause.Cause))
		}
		server := r.Server
		if r.Mode != "" {
			server += ", " + r.Mode
		}
		fmt.Fprintf(&out, "| `%s`: %s | %s | %s | %s | %d | %d | %d | %s |\n",
			r.Set, r.What, server, r.Engine, r.Kubelet, r.Passed, r.Failed, r.Skipped, strings.Join(causes, "; "))
	}
	return out.String()
}

// parts are the processes of a node, in the table's order.
func parts() []string { return []string{"server", "engine", "shims", "kubelet"} }

// table has a row a figure and a column a server.
func (r loadResult) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d pods of one container, engine %s, kubelet %s:\n\n![a full node](figures/%s)\n\n|  |", r.Pods, r.Engine, r.Kubelet, loadPicture)
	for _, s := range r.Servers {
		fmt.Fprintf(&out, " %s |", s.Server)
	}
	fmt.Fprintf(&out, "\n|---|%s\n", strings.Repeat("---|", len(r.Servers)))
	row := func(name string, cell func(i int) string) {
		fmt.Fprintf(&out, "| %s |", name)
		for i := range r.Servers {
			fmt.Fprintf(&out, " %s |", cell(i))
		}
		fmt.Fprintln(&out)
	}
	seconds := func(of func(i int) float64) func(int) string {
		return func(i int) string { return fmt.Sprintf("%.1f", of(i)) }
	}
	row("all Ready after, s", seconds(func(i int) float64 { return r.Servers[i].Up.All }))
	row("a pod Ready after, s, p50", seconds(func(i int) float64 { return r.Servers[i].Up.P50 }))
	row("p99", seconds(func(i int) float64 { return r.Servers[i].Up.P99 }))
	if r.Churn > 0 && len(r.Servers) > 0 && r.Servers[0].Churn.N > 0 {
		row(fmt.Sprintf("a pod Ready while %d a second is replaced for %.0f s, s, p50", r.Churn, r.Churned), seconds(func(i int) float64 { return r.Servers[i].Churn.P50 }))
		row("p99", seconds(func(i int) float64 { return r.Servers[i].Churn.P99 }))
	}
	row("all gone after, s", seconds(func(i int) float64 { return r.Servers[i].Gone.All }))
	row("a pod gone after, s, p50", seconds(func(i int) float64 { return r.Servers[i].Gone.P50 }))
	row("p99", seconds(func(i int) float64 { return r.Servers[i].Gone.P99 }))
	r.partRows(row, "CPU while they come up, s", func(i int) map[string]float64 { return r.Servers[i].UpCPU })
	r.partRows(row, fmt.Sprintf("CPU of %.0f s at rest, s", r.Rest), func(i int) map[string]float64 { return r.Servers[i].RestCPU })
	r.partRows(row, "memory at rest, MiB", func(i int) map[string]float64 { return r.Servers[i].Memory })
	return out.String()
}

// partRows writes a row for each part of a node that any server's has.
func (r loadResult) partRows(row func(string, func(int) string), name string, of func(i int) map[string]float64) {
	for _, part := range parts() {
		has := func(i int) bool { _, ok := of(i)[part]; return ok }
		if !slices.ContainsFunc(indices(len(r.Servers)), has) {
			continue
		}
		row(name+": "+part, func(i int) string {
			if !has(i) {
				return "–"
			}
			return fmt.Sprintf("%.1f", of(i)[part])
		})
	}
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// colours are the servers of the run in the colours that they have everywhere.
func (r loadResult) colours() []server {
	return slices.DeleteFunc(allServers(), func(s server) bool {
		return !slices.ContainsFunc(r.Servers, func(one serverLoad) bool { return one.Server == s.name })
	})
}

// picture draws what a reader looks for first.
func (r loadResult) picture() string {
	groups := []group{
		{name: "up, s"}, {name: "gone, s"}, {name: "CPU at rest, s"}, {name: "memory, MiB"},
	}
	for i := range groups {
		groups[i].values = make(map[string]float64)
	}
	for _, s := range r.Servers {
		groups[0].values[s.Server], groups[1].values[s.Server] = s.Up.All, s.Gone.All
		for _, part := range parts()[:3] {
			groups[2].values[s.Server] += s.RestCPU[part]
			groups[3].values[s.Server] += s.Memory[part]
		}
	}
	return bars(r.colours(), fmt.Sprintf("%d pods: time until all are Ready and gone, and what server, engine and shims use at rest", r.Pods), groups)
}
