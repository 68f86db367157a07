package status

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// WriteText writes the answer as text. Times are relative to now.
func (a Answer) WriteText(to io.Writer, now time.Time) error {
	var text strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&text, "  %-15s %s\n", name, fmt.Sprintf(format, args...))
	}
	if a.Report == nil {
		fmt.Fprintf(&text, "%s on %s, which is not criadapter\n", a.Runtime, a.Endpoint)
	} else {
		r := a.Report
		fmt.Fprintf(&text, "criadapter %s on %s\n", r.Version, a.Endpoint)
		line("process", "%d, up %s", r.PID, span(now.Sub(r.Started)))
	}
	line("runtime", "%s", ready(a.Conditions[runtimeapi.RuntimeReady]))
	line("network", "%s", ready(a.Conditions[runtimeapi.NetworkReady]))
	if e := a.Engine; e != nil {
		line("engine", "Docker Engine %s, API %s, %s, cgroup v%d by %s", e.ServerVersion, e.APIVersion, e.StorageDriver,
			e.CgroupVersion, e.CgroupDriver)
		line("engine has", "%s", words(map[string]bool{
			"live restore": e.LiveRestore, "seccomp": e.Seccomp, "AppArmor": e.AppArmor, "SELinux": e.SELinux,
			"swap limits":         e.SwapLimit,
			"negative OOM scores": e.NegativeOOMScore, "containerd's image store": e.ContainerdImageStore,
		}))
	}
	line("handlers", "%s", handlers(a.Handlers))
	if a.Report != nil {
		a.Report.write(line, now)
	}
	for _, warning := range a.Warnings {
		line("warning", "%s", warning)
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// text says how commands were run, and why some of them needed the engine.
func (c Commands) text() string {
	if c.ThroughRuntime+c.ThroughEngine == 0 {
		return "none yet"
	}
	text := fmt.Sprintf("%d straight to the OCI runtime", c.ThroughRuntime)
	if c.Runtime != "" {
		text += " (" + c.Runtime + ")"
	}
	text += fmt.Sprintf(", %d through the engine", c.ThroughEngine)
	if c.EngineReason != "" {
		text += ": " + c.EngineReason
	}
	return text
}

func (r *Report) write(line func(name, format string, args ...any), now time.Time) {
	cache := "follows the engine"
	if r.CacheError != "" {
		cache = "does not follow the engine: " + r.CacheError
	}
	if r.Relisted.IsZero() {
		line("cache", "%s; never compared with it", cache)
	} else {
		line("cache", "%s; compared with it %s ago", cache, span(now.Sub(r.Relisted)))
	}
	if r.LastEvent.IsZero() {
		line("events", "none yet")
	} else {
		line("events", "the last one came %s ago, %s late", span(now.Sub(r.LastEvent)),
			r.EventLag.Round(10*time.Microsecond))
	}
	line("pods", "%s", counts(r.Pods))
	line("containers", "%s", counts(r.Containers))
	line("sessions", "%s", counts(r.Sessions))
	line("commands", "%s", r.Commands.text())
	if r.LogGaps > 0 {
		line("log gaps", "%d: the engine dropped output before it was read", r.LogGaps)
	}
	if r.CNI.At.IsZero() {
		line("last CNI error", "none")
	} else {
		line("last CNI error", "%s, %s ago: %s", r.CNI.Operation, span(now.Sub(r.CNI.At)), r.CNI.Error)
	}
	if len(r.Slow) == 0 {
		line("slow calls", "none")
	}
	for _, call := range r.Slow {
		line("slow call", "%s %s, %s, %s ago", call.Kind, call.Call, call.Took.Round(time.Millisecond),
			span(now.Sub(call.Ended)))
	}
	if len(r.Quarantined) == 0 {
		line("quarantine", "empty")
	}
	for _, path := range r.Quarantined {
		line("quarantine", "%s", path)
	}
}

func ready(fault string) string {
	if fault == "" {
		return "ready"
	}
	return "not ready: " + fault
}

// counts writes the counts above zero, by name.
func counts(by map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if by[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", by[name], name))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// words are the names with the value true.
func words(is map[string]bool) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if is[name] {
			parts = append(parts, name)
		}
	}
	return strings.Join(parts, ", ")
}

func handlers(list []Handler) string {
	var parts []string
	for _, h := range list {
		name := cmp.Or(h.Name, "(default)")
		if h.RecursiveReadOnly {
			name += " with recursive read-only mounts"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

// span writes a time in seconds, minutes, or hours and days.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than 1s"
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
