package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/cluster/build"
)

// column is one kind of node: a server on or beside an engine, and the kind of its pods.
type column struct{ server, engine, mode string }

// column returns the kind of node of a result. The rig's engines know the OCI runtime, so pods have no sandbox
// container by default.
func (r specsResult) column() column {
	if r.Server != "criadapter" {
		return column{r.Server, r.Engine, ""}
	}
	return column{r.Server, r.Engine, cmp.Or(r.Mode, "oci")}
}

// title is the column's head.
func (c column) title() string {
	if c.server != "criadapter" {
		return c.server + " beside " + c.engine
	}
	switch c.mode {
	case "container":
		return c.engine + ", sandbox containers"
	case "oci":
		return c.engine + ", no sandbox containers"
	}
	return c.engine
}

// order is the key by which columns are sorted: criadapter before other servers, the installed engine before other
// engines.
func (c column) order() string {
	return fmt.Sprint(c.server != "criadapter", c.server, c.engine != "installed", c.engine, c.mode)
}

// setsTables writes a table with a row for each set and a column for each kind of node. Only results of the pinned
// kubelet count. A second table has the causes why specs do not pass.
func setsTables(results []specsResult) string {
	results = slices.DeleteFunc(slices.Clone(results), func(r specsResult) bool { return r.Kubelet != build.Version })
	if len(results) == 0 {
		return nothingYetSets
	}
	columns := columnsOf(results)
	var out strings.Builder
	tableHead(&out, "set", columns, column.title)
	for _, set := range setsOf(results) {
		fmt.Fprintf(&out, "| `%s`: %s |", set.Set, set.What)
		for _, c := range columns {
			i := slices.IndexFunc(results, func(r specsResult) bool { return r.column() == c && r.Set == set.Set })
			if i < 0 {
				fmt.Fprint(&out, " |")
				continue
			}
			fmt.Fprintf(&out, " %s |", results[i].counts())
		}
		fmt.Fprintln(&out)
	}
	out.WriteString(causesTable(results, columns))
	return out.String()
}

// counts writes how many specs passed, failed, were skipped and were left out, and how many passed only when repeated.
func (r specsResult) counts() string {
	text := fmt.Sprintf("%d, %d, %d", r.Passed, r.Failed, r.Skipped)
	if r.LeftOut > 0 {
		text += fmt.Sprintf(", %d left out", r.LeftOut)
	}
	if r.Again > 0 {
		text += fmt.Sprintf(" (%d again)", r.Again)
	}
	return text
}

func columnsOf(results []specsResult) []column {
	var columns []column
	for _, r := range results {
		if !slices.Contains(columns, r.column()) {
			columns = append(columns, r.column())
		}
	}
	slices.SortFunc(columns, func(a, b column) int { return cmp.Compare(a.order(), b.order()) })
	return columns
}

// setsOf returns one result for each set, the sets with the most specs first.
func setsOf(results []specsResult) []specsResult {
	var sets []specsResult
	for _, r := range results {
		if !slices.ContainsFunc(sets, func(s specsResult) bool { return s.Set == r.Set }) {
			sets = append(sets, r)
		}
	}
	all := func(r specsResult) int { return r.Passed + r.Failed + r.Skipped }
	slices.SortFunc(sets, func(a, b specsResult) int {
		return cmp.Or(-cmp.Compare(all(a), all(b)), cmp.Compare(a.Set, b.Set))
	})
	return sets
}

// causesTable writes the causes why specs do not pass. Each has its count in the set where it is most frequent.
func causesTable(results []specsResult, columns []column) string {
	type reason struct{ cause, outcome string }
	most := make(map[reason]map[column]int)
	var reasons []reason
	for _, r := range results {
		for _, c := range r.Causes {
			why := reason{c.Cause, c.Outcome}
			if most[why] == nil {
				most[why] = make(map[column]int)
				reasons = append(reasons, why)
			}
			most[why][r.column()] = max(most[why][r.column()], c.Specs)
		}
	}
	if len(reasons) == 0 {
		return ""
	}
	slices.SortFunc(reasons, func(a, b reason) int {
		return cmp.Or(cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.cause, b.cause))
	})
	var out strings.Builder
	fmt.Fprint(&out,
		"\nCauses of specs that do not pass, each with its count in the set where it is most frequent:\n\n")
	tableHead(&out, "cause", columns, column.title)
	for _, why := range reasons {
		fmt.Fprintf(&out, "| %s: %s |", why.outcome, why.cause)
		for _, c := range columns {
			if most[why][c] == 0 {
				fmt.Fprint(&out, " |")
			} else {
				fmt.Fprintf(&out, " %d |", most[why][c])
			}
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}
