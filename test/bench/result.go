package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/criadapter/criadapter/test/program"
)

// result has all measurements. A part that was not measured is empty.
type result struct {
	// Engine is the engine's name in the variable ENGINE. Versions has the runtime's name and version that each server
	// reports.
	Engine    string             `json:"engine"`
	Versions  map[string]string  `json:"versions"`
	InProcess table              `json:"inProcess"`
	Lives     table              `json:"lives"`
	Images    table              `json:"images"`
	Exec      table              `json:"exec"`
	Logs      map[string]logCost `json:"logs,omitempty"`
	Kubelet   table              `json:"kubelet"`
	Storms    table              `json:"storms"`
	Lists     []listsResult      `json:"lists,omitempty"`
	Usage     map[string]usage   `json:"usage,omitempty"`
	Nodes     *nodes             `json:"nodes,omitempty"`
	Rest      *rest              `json:"rest,omitempty"`
	Scale     []*scaleStep       `json:"scale,omitempty"`
	Calls     *engineCalls       `json:"engineCalls,omitempty"`
	Ratios    []ratio            `json:"ratios"`
}

// listsResult has the times of lists on a server with a number of pods of two containers.
type listsResult struct {
	Pods  int    `json:"pods"`
	Table *table `json:"table"`
}

// ratio is a figure that must not exceed its goal.
type ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Goal  float64 `json:"goal"`
	Met   bool    `json:"met"`
}

// goal limits how long one server takes compared to another, in one row of a table. The median of the turns' ratios
// counts.
type goal struct {
	name, row, other string
	most             float64
}

// compare adds one ratio of a server for each goal.
func (r *result) compare(t *table, name string, goals ...goal) {
	for _, g := range goals {
		r.add(g.name, t.ratio(g.row, name, g.other), g.most)
	}
}

func (r *result) add(name string, value, most float64) {
	r.Ratios = append(r.Ratios, ratio{Name: name, Value: value, Goal: most, Met: value <= most})
}

// sum adds up calls.
func sum(calls map[string]int) int {
	n := 0
	for _, count := range calls {
		n += count
	}
	return n
}

// print writes all figures as tables, and the ratios last.
func (r *result) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s, raw calls on the engine of criadapter\n\n", measured(r.Engine, r.Versions))
	r.InProcess.print(w, "Lists in process, by the number of containers")
	r.Lives.print(w, "The life of a pod with one container")
	r.Storms.print(w, "Many pods at once")
	for _, lists := range r.Lists {
		lists.Table.print(w, fmt.Sprintf("With %d pods of two containers", lists.Pods))
	}
	printUsage(w, r.Usage)
	r.Nodes.print(w)
	r.Rest.print(w)
	r.Calls.print(w)
	r.Images.print(w, "Images without pods")
	r.Exec.print(w, "ExecSync beside the calls that it is made of")
	printLogs(w, r.Logs)
	r.Kubelet.print(w, "Pods through the kubelet core")
	for _, step := range r.Scale {
		step.print(w)
	}
	missed := 0
	for _, ratio := range r.Ratios {
		note := ""
		if !ratio.Met {
			note, missed = " MISSED", missed+1
		}
		fmt.Fprintf(w, "ratio %s %.4g goal %.3g%s\n", ratio.Name, ratio.Value, ratio.Goal, note)
	}
	fmt.Fprintf(w, "%d of %d goals met\n", len(r.Ratios)-missed, len(r.Ratios))
	return w.Flush()
}

// measured says which runtime each server has.
func measured(engine string, versions map[string]string) string {
	var servers []string
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		servers = append(servers, name+" on "+versions[name])
	}
	return fmt.Sprintf("Engine %s: %s", engine, strings.Join(servers, ", "))
}

// print writes the table with p50, p90 and p99 in milliseconds.
func (t *table) print(w io.Writer, title string) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "%s, p50 / p90 / p99 ms\t", title)
	for _, column := range t.columns() {
		fmt.Fprintf(w, "%s\t", column)
	}
	fmt.Fprintln(w)
	for _, row := range t.rows {
		fmt.Fprintf(w, "%s\t", row)
		for _, column := range t.columns() {
			s := t.cells[row][column]
			if len(s) == 0 {
				fmt.Fprint(w, "–\t")
				continue
			}
			fmt.Fprintf(w, "%s / %s / %s\t", short(s.quantile(0.5)), short(s.quantile(0.9)), short(s.quantile(0.99)))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// short is milliseconds with three digits.
func short(d time.Duration) string { return threeDigits(milliseconds(d)) }

func threeDigits(value float64) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}

// MarshalJSON writes quantiles in milliseconds by row and column.
func (t table) MarshalJSON() ([]byte, error) {
	type cell struct {
		N             int `json:"n"`
		P50, P90, P99 float64
	}
	rows := map[string]map[string]cell{}
	for row, columns := range t.cells {
		rows[row] = map[string]cell{}
		for column, s := range columns {
			rows[row][column] = cell{len(s), milliseconds(s.quantile(0.5)), milliseconds(s.quantile(0.9)),
				milliseconds(s.quantile(0.99))}
		}
	}
	return json.Marshal(rows)
}

// write writes everything as JSON.
func (r *result) write(path string) error {
	for i := range r.Ratios {
		if math.IsNaN(r.Ratios[i].Value) {
			return fmt.Errorf("nothing was measured for %s", r.Ratios[i].Name)
		}
	}
	return program.WriteJSON(path, r)
}
