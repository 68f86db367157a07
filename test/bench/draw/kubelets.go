package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	beginCalls      = "<!-- calls -->\n"
	beginCore       = "<!-- core -->\n"
	kubeletCore     = "kubelet-core"
	nothingYetCalls = "Nothing was run yet: `make conformance FAST=1` with each `KUBELET` and then `make " +
		"figures` write the table here.\n"
	nothingYetCore = "Nothing was run yet: `make conformance NODE=kubelet-core` and then `make figures` write " +
		"the table here.\n"
)

// kubeletName is the version of a real kubelet, or the name of the kubelet core, which sorts after all versions.
func (r specsResult) kubeletName() string { return strings.TrimPrefix(r.Kubelet, "v") }

// callsTable has a row for each CRI method and a column for each kubelet. It has only runs of the fast set on
// criadapter with the installed engine and the default kind of pods. Runs without counted calls are left out.
func callsTable(results []specsResult) string {
	runs := slices.DeleteFunc(slices.Clone(results), func(r specsResult) bool {
		return r.Set != "fast" || r.Server != "criadapter" || r.Engine != "installed" || r.Mode != "" ||
			len(r.Calls) == 0
	})
	if len(runs) == 0 {
		return nothingYetCalls
	}
	slices.SortFunc(runs, func(a, b specsResult) int { return cmp.Compare(a.kubeletName(), b.kubeletName()) })
	methods := make(map[string]bool)
	for _, run := range runs {
		for method := range run.Calls {
			methods[method] = true
		}
	}
	var out strings.Builder
	row := func(name string, cell func(specsResult) string) { tableRow(&out, name, runs, cell) }
	tableHead(&out, "kubelet", runs, specsResult.kubeletName)
	row("specs passed, failed", func(r specsResult) string { return fmt.Sprintf("%d, %d", r.Passed, r.Failed) })
	row("seconds", func(r specsResult) string { return fmt.Sprintf("%.0f", r.Seconds) })
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		row(method, func(r specsResult) string {
			if r.Calls[method] == 0 {
				return "–"
			}
			return fmt.Sprint(r.Calls[method])
		})
	}
	return out.String()
}

// coreTable has a row for each set that was run with the kubelet core. A second table has the causes why specs do not
// pass.
func coreTable(results []specsResult) string {
	runs := slices.DeleteFunc(slices.Clone(results), func(r specsResult) bool {
		return r.Kubelet != kubeletCore || r.Server != "criadapter" || r.Engine != "installed" || r.Mode != ""
	})
	if len(runs) == 0 {
		return nothingYetCore
	}
	var sets, causes strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&sets, "| `%s`: %s | %d | %d | %d | %d |\n", r.Set, r.What, r.Passed, r.Failed, r.Skipped,
			r.LeftOut)
		for _, cause := range r.Causes {
			fmt.Fprintf(&causes, "| `%s` | %d | %s | %s |\n", r.Set, cause.Specs, cause.Outcome, cause.Cause)
		}
	}
	text := "| set | passed | failed | skipped | left out |\n|---|---|---|---|---|\n" + sets.String()
	if causes.Len() > 0 {
		text += "\n| set | specs | | because |\n|---|---|---|---|\n" + causes.String()
	}
	return text
}
