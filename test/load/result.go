package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/engine"
)

// result is what a run measured.
type result struct {
	Pods int
	// The requested load: Rest, Churned and Probed in seconds, Churn in pods a second and Probes in probes a minute.
	Rest, Churned, Probed float64
	Churn                 int
	Probes                float64
	Engine, Mode, Kubelet string
	Servers               []figures
}

// figures are the results of one server's node.
type figures struct {
	Server  string // or node, with the option -nodes
	Runtime string // name and version of the server's runtime
	Phases  map[string]measured
}

// measured is the result of one phase.
type measured struct {
	// Unfinished says why the phase did not finish, or begin.
	Unfinished string `json:",omitempty"`
	// Seconds is how long the phase took.
	Seconds float64
	// Ready has the times from creation to Ready, and Gone the times from deletion until the pods were gone.
	Ready times `json:",omitzero"`
	Gone  times `json:",omitzero"`
	// Reached is how many pods a second were replaced.
	Reached float64 `json:",omitempty"`
	Probes  *probed `json:",omitempty"`
	// CPU is the use of each part in seconds. Memory is the use of each part at the end of the phase, in MiB.
	CPU, Memory map[string]float64 `json:",omitempty"`
	// Calls is the number of CRI calls, 0 for a server without metrics.
	Calls int `json:",omitempty"`
	// Shims is the number of shims at the end of the phase.
	Shims int `json:",omitempty"`
}

// probed has the figures of probes from the kubelet's metrics.
type probed struct {
	PerMinute float64
	Failed    int
	Mean      float64 // seconds, of the successful probes
}

// times has quantiles of how long each of N pods took, in seconds. All is the time from the first pod's start to the
// last pod's end, also in seconds.
type times struct {
	N             int
	P50, P99, All float64
}

func newTimes(took []time.Duration, all time.Duration) times {
	slices.Sort(took)
	return times{N: len(took), P50: quantile(took, 0.5), P99: quantile(took, 0.99), All: all.Seconds()}
}

// quantile is the smallest of the sorted times that a share q of all times does not exceed, in seconds. It is 0 without
// times.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)].Seconds()
}

// String is the line that is printed for a phase.
func (m measured) String() string {
	if m.Unfinished != "" {
		return "not finished: " + m.Unfinished
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%.1f s", m.Seconds)
	if m.Ready.N > 0 {
		fmt.Fprintf(&out, "; %d pods Ready after p50 %.1f s, p99 %.1f s", m.Ready.N, m.Ready.P50, m.Ready.P99)
	}
	if m.Gone.N > 0 {
		fmt.Fprintf(&out, "; %d gone after p50 %.1f s, p99 %.1f s", m.Gone.N, m.Gone.P50, m.Gone.P99)
	}
	if m.Reached > 0 {
		fmt.Fprintf(&out, "; %.2f replaced a second", m.Reached)
	}
	if m.Probes != nil {
		fmt.Fprintf(&out, "; %.0f probes a minute, %.0f ms each, %d failed", m.Probes.PerMinute, m.Probes.Mean*1000,
			m.Probes.Failed)
	}
	if m.Calls > 0 {
		fmt.Fprintf(&out, "; %d CRI calls", m.Calls)
	}
	fmt.Fprintf(&out, "; CPU s%s; memory MiB%s; %d shims", byPart(m.CPU), byPart(m.Memory), m.Shims)
	return out.String()
}

func byPart(values map[string]float64) string {
	text := ""
	for _, part := range partNames() {
		if value, ok := values[part]; ok {
			text += fmt.Sprintf(" %s %.1f", part, value)
		}
	}
	return text
}

// unfinished names the phases of a server that did not finish.
func (f figures) unfinished() []string {
	var names []string
	for name, m := range f.Phases {
		if m.Unfinished != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// forEngine adds the engine's name to the name of a file, unless the engine is the installed one.
func forEngine(name, engineName, suffix string) string {
	if engineName != engine.Installed {
		name += "-" + filepath.Base(engineName)
	}
	return name + suffix
}

// write writes the result as JSON. make figures draws it.
func (r result) write(path string) error {
	return program.WriteJSON(path, r)
}
