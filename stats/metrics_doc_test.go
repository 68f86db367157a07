package stats

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The table in docs/metrics.md agrees with the metric table.
func TestMetricsAreDocumented(t *testing.T) {
	path := filepath.Join("..", "docs", "metrics.md")
	content, err := os.ReadFile(path)
	must(t, err)
	const begin, end = "<!-- metrics -->\n", "<!-- /metrics -->"
	head, rest, ok1 := bytes.Cut(content, []byte(begin))
	table, tail, ok2 := bytes.Cut(rest, []byte(end))
	testutil.Require(t, ok1 && ok2, "%s has no table", path)
	var want strings.Builder
	want.WriteString("| group | metric | type | of | labels of its own | |\n|---|---|---|---|---|---|\n")
	for _, m := range metricTable() {
		fmt.Fprintf(&want, "| %s | `%s` | %s | %s | %s | %s |\n", m.group, m.name, strings.ToLower(m.kind.String()),
			m.of, strings.Join(m.keys, ", "), m.help)
	}
	if *update {
		must(t, os.WriteFile(path, []byte(string(head)+begin+want.String()+end+string(tail)), 0o644))
		return
	}
	testutil.Assert(t, string(table) == want.String(),
		"the table in %s is out of date (-update writes it anew), want:\n%s", path, want.String())
}

// String names the subjects for docs/metrics.md.
func (of subjects) String() string {
	var names []string
	for subject, name := range []string{"container", "pod", "pod's network"} {
		if of&(1<<subject) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
