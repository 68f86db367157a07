package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// result is everything that was measured.
type result struct {
	Lives     *table           `json:"lives"`
	Storms    *table           `json:"storms"`
	Lists     []listsResult    `json:"lists"`
	Usage     map[string]usage `json:"usage"`
	InProcess *table           `json:"inProcess"`
	// StartCalls is how many engine calls criadapter's start with allPods pods took, RelistCalls those of relistsCounted
	// relists and statuses, by method and path.
	StartCalls  int            `json:"startCalls"`
	RelistCalls map[string]int `json:"relistCalls"`
	Ratios      []ratio        `json:"ratios"`
}

// listsResult is what lists cost with that many pods of two containers.
type listsResult struct {
	Pods  int    `json:"pods"`
	Table *table `json:"table"`
}

// ratio is a figure that has a goal, which it must not exceed.
type ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Goal  float64 `json:"goal"`
	Met   bool    `json:"met"`
}

// goal is the most that criadapter's times in a row of a table may be of another's, in the median of the turns.
type goal struct {
	name, row, other string
	most             float64
}

// judge compares all that has a goal with it.
func (b *bench) judge() {
	r := &b.result
	r.compare(r.Lives,
		goal{"run-to-best-raw", callRun, nameRawBest, 1.10},
		goal{"run-to-cri-dockerd", callRun, nameCRIDockerd, 0.65},
		goal{"run-to-containerd", callRun, nameContainerd, 1.2},
		goal{"pod-up-to-cri-dockerd", sumUp, nameCRIDockerd, 0.75},
		goal{"pod-up-to-containerd", sumUp, nameContainerd, 1.2})
	r.compare(r.Storms,
		goal{"24-pods-4-workers-to-cri-dockerd", stormRow(4), nameCRIDockerd, 0.5},
		goal{"24-pods-4-workers-to-containerd", stormRow(4), nameContainerd, 1.25})
	r.compare(r.Lists[len(r.Lists)-1].Table,
		goal{"relist-60-pods-to-containerd", rowRelist, nameContainerd, 1.0},
		goal{"relist-60-pods-to-cri-dockerd", rowRelist, nameCRIDockerd, 1.0 / 15},
		goal{"pod-status-to-containerd", rowPod, nameContainerd, 1.0},
		goal{"container-status-to-containerd", rowContainer, nameContainerd, 1.0})
	ours, theirs := r.Usage[nameCriadapter].Server.RSS, r.Usage[nameCRIDockerd].Server.RSS
	r.add("rss-60-pods-to-cri-dockerd", float64(ours)/float64(theirs), 0.5)
	r.add("engine-calls-in-60-relists", float64(sum(r.RelistCalls)), 0)
	r.add("list-10000-to-1000-in-process", r.InProcess.ratio(rowInProcess, fmt.Sprint(largeList), fmt.Sprint(smallList)), 12)
}

func (r *result) compare(t *table, goals ...goal) {
	for _, g := range goals {
		r.add(g.name, t.ratio(g.row, nameCriadapter, g.other), g.most)
	}
}

func (r *result) add(name string, value, most float64) {
	r.Ratios = append(r.Ratios, ratio{Name: name, Value: value, Goal: most, Met: value <= most})
}

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
	r.Lives.print(w, "The life of a pod with one container")
	r.Storms.print(w, "Many pods at once")
	for _, lists := range r.Lists {
		lists.Table.print(w, fmt.Sprintf("With %d pods of two containers", lists.Pods))
	}
	r.InProcess.print(w, "Lists in process, by the number of containers")
	fmt.Fprintf(w, "With %d pods\tRSS MiB\tRssAnon MiB\tCPU ms server\tCPU ms engine\t (%d relists)\n", allPods, relistsCounted)
	for _, name := range []string{nameCriadapter, nameContainerd, nameCRIDockerd} {
		used := r.Usage[name]
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t\n", name, float64(used.Server.RSS)/1024, float64(used.Server.RSSAnon)/1024,
			milliseconds(used.ServerCPU), milliseconds(used.EngineCPU))
	}
	fmt.Fprintf(w, "\nA start with %d pods took %d engine calls; %d relists and statuses took %d %v.\n\n",
		allPods, r.StartCalls, relistsCounted, sum(r.RelistCalls), r.RelistCalls)
	missed := 0
	for _, ratio := range r.Ratios {
		note := ""
		if !ratio.Met {
			note, missed = " MISSED", missed+1
		}
		fmt.Fprintf(w, "ratio %s %.3f goal %.3g%s\n", ratio.Name, ratio.Value, ratio.Goal, note)
	}
	fmt.Fprintf(w, "%d of %d goals met\n", len(r.Ratios)-missed, len(r.Ratios))
	return w.Flush()
}

// print writes the table with p50, p90 and p99 in milliseconds.
func (t *table) print(w io.Writer, title string) {
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
func short(d time.Duration) string {
	ms := milliseconds(d)
	if ms >= 100 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.3g", ms)
}

// MarshalJSON writes quantiles in milliseconds by row and column.
func (t *table) MarshalJSON() ([]byte, error) {
	type cell struct {
		N             int `json:"n"`
		P50, P90, P99 float64
	}
	rows := map[string]map[string]cell{}
	for row, columns := range t.cells {
		rows[row] = map[string]cell{}
		for column, s := range columns {
			rows[row][column] = cell{len(s), milliseconds(s.quantile(0.5)), milliseconds(s.quantile(0.9)), milliseconds(s.quantile(0.99))}
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
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
