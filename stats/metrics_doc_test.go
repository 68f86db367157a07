package stats

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The table in docs/metrics.md agrees with the metric table.
func TestMetricsAreDocumented(t *testing.T) {
	var want strings.Builder
	want.WriteString("| group | metric | type | of | labels of its own | |\n|---|---|---|---|---|---|\n")
	for _, m := range metricTable() {
		fmt.Fprintf(&want, "| %s | `%s` | %s | %s | %s | %s |\n", m.group, m.name, strings.ToLower(m.kind.String()),
			m.of, strings.Join(m.keys, ", "), m.help)
	}
	testutil.Section(t, filepath.Join("..", "docs", "metrics.md"), "metrics", want.String(), *update)
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
