package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/program"
)

const (
	loadDocument = "docs/reports/load.md"
	loadPicture  = "load.svg"
)

// loadResult has the fields of test/load's result that the report needs.
type loadResult struct {
	Pods                  int
	Rest, Churned, Probed float64
	Churn                 int
	Probes                float64
	Engine, Mode, Kubelet string
	Servers               []serverLoad
}

// serverLoad is one server's part of a loadResult.
type serverLoad struct {
	Server, Runtime string
	Phases          map[string]phase
}

// phase is the result of one phase. A phase that did not finish says why, and its figures are not shown.
type phase struct {
	Unfinished  string
	Seconds     float64
	Ready, Gone loadTimes
	Reached     float64
	Probes      struct {
		PerMinute, Mean float64
		Failed          int
	}
	CPU, Memory  map[string]float64
	Shims, Calls int
}

// loadTimes are seconds.
type loadTimes struct {
	N             int
	P50, P99, All float64
}

// loadPhases returns test/load's names of the phases, in the order of the table.
func loadPhases() []string { return []string{"up", "rest", "restarts", "churn", "gone", "probes"} }

// cpuParts and memoryParts are the processes of a node, in the table's order.
func cpuParts() []string    { return []string{"server", "engine", "shims", "kubelet", "pods"} }
func memoryParts() []string { return cpuParts()[:4] }

// loadFile is the file of an engine's kept result. loadBegin is the marker before the engine's part of the document.
func (s section) loadFile() string {
	return "load" + strings.TrimPrefix(s.file(), "result")
}

func (s section) loadBegin() string { return strings.Replace(s.begin(), "figures", "load", 1) }

// runLoad keeps the new results of full nodes, and writes their report and its picture.
func runLoad(from string) error {
	for _, s := range loadSections() {
		if err := keep(from, s.file(), s.loadFile(), checkJSON); err != nil {
			return err
		}
	}
	return redraw(loadDocument, loadPicture, drawLoad)
}

// drawLoad puts the tables of full nodes into the report. svg is empty without a measurement.
func drawLoad(text []byte) (_ []byte, svg string, err error) {
	for _, s := range loadSections() {
		content := fmt.Sprintf(
			"Nothing was measured yet: `make load%s` and then `make figures` write the table here.\n", s.variable())
		loaded, err := program.ReadJSON[loadResult](filepath.Join(figures, s.loadFile()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
		if err == nil {
			content = loaded.table(s.drawn)
			if s.drawn {
				svg = loaded.picture()
			}
		}
		if text, err = replaceBetween(text, loadDocument, s.loadBegin(), content); err != nil {
			return nil, "", err
		}
	}
	return text, svg, nil
}

// nodes names the section that compares the kubelet and the kubelet core on criadapter. The other sections have the
// name of an engine.
const nodes = "nodes"

func loadSections() []section { return append(sections(), section{nodes, false}) }

// variable is the argument for make load that produces the section's result.
func (s section) variable() string {
	switch s.engine {
	case "":
		return ""
	case nodes:
		return " NODES=kubelet,kubelet-core"
	}
	return " ENGINE=" + s.engine
}

// table has a row for each figure and a column for each server.
func (r loadResult) table(drawn bool) string {
	var out strings.Builder
	engine := r.Engine
	if r.Mode != "" {
		engine += ", pods made in mode " + r.Mode
	}
	fmt.Fprintf(&out, "%d pods of one container, kubelet %s, engine `%s`:\n\n", r.Pods, r.Kubelet, engine)
	if drawn {
		fmt.Fprintf(&out, "![a full node](%s/%s)\n\n", figuresLink, loadPicture)
	}
	tableHead(&out, "", r.Servers, func(s serverLoad) string { return s.Server })
	tableRow(&out, "runs pods on", r.Servers, func(s serverLoad) string { return s.Runtime })
	for _, row := range r.rows() {
		tableRow(&out, row.name, r.Servers, func(s serverLoad) string { return s.cell(row) })
	}
	return out.String() + r.unfinished()
}

// loadRow is one figure of a phase.
type loadRow struct {
	name, phase string
	cell        func(phase) string
}

// rows returns the figures of the phases, then the costs of each phase.
func (r loadResult) rows() []loadRow {
	both := func(t loadTimes) string { return fmt.Sprintf("%.1f / %.1f", t.P50, t.P99) }
	ready := func(p phase) string { return both(p.Ready) }
	gone := func(p phase) string { return both(p.Gone) }
	seconds := func(p phase) string { return fmt.Sprintf("%.1f", p.Seconds) }
	rows := []loadRow{
		{"**up**: all are Ready after, s", "up", seconds},
		{"one is Ready after, s, p50 / p99", "up", ready},
		{"**restarts**: all are replaced after, s", "restarts", seconds},
		{"one is Ready after, s, p50 / p99", "restarts", ready},
		{"one is gone after, s, p50 / p99", "restarts", gone},
		{fmt.Sprintf("**churn** for %.0f s: pods replaced a second, of %d asked for", r.Churned, r.Churn), "churn",
			func(p phase) string { return fmt.Sprintf("%.2f", p.Reached) }},
		{"one is Ready after, s, p50 / p99", "churn", ready},
		{"one is gone after, s, p50 / p99", "churn", gone},
		{"**gone**: all are gone after, s", "gone", seconds},
		{"one is gone after, s, p50 / p99", "gone", gone},
		{fmt.Sprintf("**probes** for %.0f s: a minute, of %.0f asked for", r.Probed, r.Probes), "probes",
			func(p phase) string { return fmt.Sprintf("%.0f", p.Probes.PerMinute) }},
		{"one takes, ms, mean", "probes", probeTime},
		{"failed", "probes", func(p phase) string { return fmt.Sprintf("%d", p.Probes.Failed) }},
	}
	long := map[string]string{"rest": fmt.Sprintf("%.0f s at rest", r.Rest)}
	for _, name := range loadPhases() {
		rows = append(rows,
			loadRow{costName("**CPU**, s", name, long, cpuParts()), name, func(p phase) string {
				return costs(p.CPU, cpuParts(), "%.1f")
			}})
	}
	for _, name := range loadPhases() {
		rows = append(rows,
			loadRow{costName("**memory** after it, MiB", name, nil, memoryParts()), name, func(p phase) string {
				return costs(p.Memory, memoryParts(), "%.0f")
			}})
	}
	for i, name := range r.called() {
		label := name
		if i == 0 {
			label = "**CRI calls**: " + name
		}
		rows = append(rows, loadRow{label, name, func(p phase) string { return fmt.Sprintf("%d", p.Calls) }})
	}
	return append(rows,
		loadRow{"**shims** at rest", "rest", func(p phase) string { return fmt.Sprintf("%d", p.Shims) }})
}

// probeTime is a dash for a kubelet that does not measure its probes.
func probeTime(p phase) string {
	if p.Probes.Mean == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", 1000*p.Probes.Mean)
}

// called returns the phases whose calls were counted for all columns.
func (r loadResult) called() []string {
	return slices.DeleteFunc(loadPhases(), func(name string) bool {
		return slices.ContainsFunc(r.Servers, func(s serverLoad) bool { return s.Phases[name].Calls == 0 })
	})
}

// costName is the name of a phase's row of costs. The first row also names the parts whose costs it has.
func costName(what, phase string, long map[string]string, of []string) string {
	name := phase
	if long[phase] != "" {
		name = long[phase]
	}
	if phase == loadPhases()[0] {
		return what + " of " + strings.Join(of, " / ") + ": " + name
	}
	return name
}

// costs writes the cost of each part, or a dash for a part that the server lacks.
func costs(of map[string]float64, parts []string, format string) string {
	var cells []string
	for _, part := range parts {
		cell := "–"
		if value, ok := of[part]; ok {
			cell = fmt.Sprintf(format, value)
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, " / ")
}

// finished returns a phase, and whether it was measured to its end.
func (s serverLoad) finished(name string) (phase, bool) {
	p, ok := s.Phases[name]
	return p, ok && p.Unfinished == ""
}

func (s serverLoad) cell(row loadRow) string {
	p, ok := s.finished(row.phase)
	if !ok {
		return "not finished"
	}
	return row.cell(p)
}

// unfinished lists the phases without figures, each with its reason.
func (r loadResult) unfinished() string {
	var out strings.Builder
	for _, s := range r.Servers {
		for _, name := range loadPhases() {
			if p := s.Phases[name]; p.Unfinished != "" {
				fmt.Fprintf(&out, "- %s did not finish `%s`: %s\n", s.Server, name,
					strings.Join(strings.Fields(p.Unfinished), " "))
			}
		}
	}
	if out.Len() == 0 {
		return ""
	}
	return "\n" + out.String()
}

// colours returns the servers of the run with the colours that they have in all pictures.
func (r loadResult) colours() []server {
	return slices.DeleteFunc(allServers(), func(s server) bool {
		return !slices.ContainsFunc(r.Servers, func(one serverLoad) bool { return one.Server == s.name })
	})
}

// loadBar is a group of bars in the picture: one figure of a phase.
type loadBar struct {
	name, phase string
	value       func(phase) float64
}

// loadBars returns the figures that a reader looks for first. CPU and memory are sums over server, engine and shims.
func (r loadResult) loadBars() []loadBar {
	seconds := func(p phase) float64 { return p.Seconds }
	return []loadBar{
		{"all up, s", "up", seconds},
		{"all replaced, s", "restarts", seconds},
		{"all gone, s", "gone", seconds},
		{fmt.Sprintf("churn, pods/s (of %d)", r.Churn), "churn", func(p phase) float64 { return p.Reached }},
		{"a probe, ms", "probes", func(p phase) float64 { return 1000 * p.Probes.Mean }},
		{"CPU at rest, s/min", "rest", func(p phase) float64 { return runs(p.CPU) * 60 / p.Seconds }},
		{"CPU a churned pod, ms", "churn", func(p phase) float64 { return 1000 * runs(p.CPU) / float64(p.Ready.N) }},
		{"CPU of probes, s/min", "probes", func(p phase) float64 { return runs(p.CPU) * 60 / p.Seconds }},
		{"memory at rest, MiB", "rest", func(p phase) float64 { return runs(p.Memory) }},
	}
}

// runs adds up the costs of server, engine and shims.
func runs(of map[string]float64) float64 { return of["server"] + of["engine"] + of["shims"] }

// picture draws the bars that were measured.
func (r loadResult) picture() string {
	var groups []group
	for _, bar := range r.loadBars() {
		g := group{name: bar.name, values: make(map[string]float64)}
		for _, s := range r.Servers {
			if p, ok := s.finished(bar.phase); ok {
				if value := bar.value(p); value > 0 && !math.IsInf(value, 0) {
					g.values[s.Server] = value
				}
			}
		}
		groups = append(groups, g)
	}
	title := fmt.Sprintf("A node of %d pods; CPU and memory of server, engine and shims; each figure has its own scale",
		r.Pods)
	return bars(r.colours(), title, groups)
}
