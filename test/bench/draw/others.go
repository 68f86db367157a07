package main

import (
	"fmt"
	"slices"
	"strings"
)

// ratio is a figure of the bench with its goal, the largest acceptable value.
type ratio struct {
	Name        string
	Value, Goal float64
	Met         bool
}

// restCost is the CPU time of a server and its engine, in seconds a minute. containerd is its own engine.
type restCost struct{ Server, Engine float64 }

// others writes the figures of the parts beside pods and lists.
func (r *result) others(out *strings.Builder) {
	var rows strings.Builder
	add := func(name string, cells row) {
		if len(cells) > 0 {
			r.cells(&rows, name, cells)
		}
	}
	for _, name := range []string{"PullImage of an image that is there", "ImageStatus"} {
		add(name+", ms", r.Images[name])
	}
	add("eight ExecSync at once, ms", r.Exec["ExecSync true, 8 containers at once"])
	add("40 pods Ready under the kubelet core, ms", r.Kubelet["40 pods Ready"])
	add("restart of a dead container, by lists, ms", r.Kubelet["death to restart, polled"])
	add("restart of a dead container, by events, ms", r.Kubelet["death to restart, evented"])
	if len(r.Logs) > 0 {
		tableRow(&rows, "lines of one log a second (more is better)", r.servers(), func(s server) string {
			return number(r.Logs, s, func(l logCost) string { return fmt.Sprintf("%.0f", l.LinesPerSecond) })
		})
		tableRow(&rows, "CPU time of 100 MB of logs, server and engine, ms", r.servers(), func(s server) string {
			return number(r.Logs, s, func(l logCost) string { return fmt.Sprintf("%.0f", l.AllCPUms) })
		})
	}
	if r.Rest != nil {
		r.rest(&rows, "quiet pods", r.Rest.Quiet)
		r.rest(&rows, "pods that write two lines a second each", r.Rest.Lines)
	}
	if rows.Len() > 0 {
		fmt.Fprint(out, "\nOther figures, the times as medians:\n\n")
		r.header(out, "")
		out.WriteString(rows.String())
	}
}

// rest writes the row of a minute at rest.
func (r *result) rest(out *strings.Builder, pods string, costs map[string]restCost) {
	name := fmt.Sprintf("CPU time of a minute at rest, %d %s, server + engine, s", r.Rest.Pods, pods)
	tableRow(out, name, r.servers(), func(s server) string {
		return number(costs, s, func(c restCost) string {
			if c.Engine == 0 {
				return fmt.Sprintf("%.2f", c.Server)
			}
			return fmt.Sprintf("%.2f + %.2f", c.Server, c.Engine)
		})
	})
}

// number writes the figure of a server, or a dash without one.
func number[T any](of map[string]T, s server, write func(T) string) string {
	if figure, measured := of[s.name]; measured {
		return write(figure)
	}
	return "–"
}

// missed writes the ratios that exceed their goals.
func (r *result) missed(out *strings.Builder) {
	bad := slices.DeleteFunc(slices.Clone(r.Ratios), func(r ratio) bool { return r.Met })
	if len(bad) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%d of %d ratios miss their goal:\n\n", len(bad), len(r.Ratios))
	tableRow(out, "ratio", []string{"value", "goal, at most"}, func(s string) string { return s })
	fmt.Fprint(out, "|---|---|---|\n")
	for _, b := range bad {
		tableRow(out, b.Name, []float64{b.Value, b.Goal}, short)
	}
}
