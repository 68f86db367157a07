package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The parts of a node whose CPU time and memory are told.
const (
	partServer  = "server"
	partEngine  = "engine"
	partShims   = "shims"
	partKubelet = "kubelet"
)

// result is what a run measured.
type result struct {
	Pods            int
	Rest, Churned   float64 // seconds
	Churn           int     // pods a second
	Engine, Kubelet string
	Servers         []figures
}

// figures are those of one server's node: CPU times in seconds, memory in MiB, by part.
type figures struct {
	Server            string
	Up, Churn, Gone   times
	UpCPU, RestCPU    map[string]float64
	ChurnCPU, GoneCPU map[string]float64
	Memory            map[string]float64
}

// times are how long single pods took, and all of them from the first one's begin to the last one's end, in seconds.
type times struct {
	N             int
	P50, P99, All float64
}

func newTimes(took []time.Duration, all time.Duration) times {
	slices.Sort(took)
	return times{N: len(took), P50: quantile(took, 0.5), P99: quantile(took, 0.99), All: all.Seconds()}
}

// quantile is the smallest of sorted times that a share q of all does not exceed, in seconds; 0 of none.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)].Seconds()
}

// String is what is printed of a server.
func (f figures) String() string {
	var out strings.Builder
	for _, row := range []struct {
		name string
		took times
		cpu  map[string]float64
	}{{"up", f.Up, f.UpCPU}, {"at rest", times{}, f.RestCPU}, {"churn", f.Churn, f.ChurnCPU}, {"gone", f.Gone, f.GoneCPU}} {
		fmt.Fprintf(&out, "%-12s %-8s", f.Server, row.name)
		if row.took.N > 0 {
			fmt.Fprintf(&out, " %d pods in %.1f s, p50 %.1f s, p99 %.1f s;", row.took.N, row.took.All, row.took.P50, row.took.P99)
		}
		fmt.Fprintf(&out, " CPU s:%s\n", byPart(row.cpu))
	}
	fmt.Fprintf(&out, "%-12s memory MiB:%s\n", f.Server, byPart(f.Memory))
	return out.String()
}

func byPart(values map[string]float64) string {
	text := ""
	for _, part := range []string{partServer, partEngine, partShims, partKubelet} {
		if value, ok := values[part]; ok {
			text += fmt.Sprintf(" %s %.1f", part, value)
		}
	}
	return text
}

// write keeps the result for the drawing.
func (r result) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
