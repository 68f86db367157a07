package fields

import (
	"cmp"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the table of fields into docs/fields.md")

// markdown is the table as it stands in docs/fields.md.
func markdown() string {
	var text strings.Builder
	text.WriteString(
		"| field | | effect | refused | engine or runtime that supports it |\n|---|---|---|---|---|\n")
	for _, row := range table() {
		names := make([]string, len(row.fields))
		for i, field := range row.fields {
			names[i] = "`" + field + "`"
		}
		refuses, needs := cmp.Or(row.refuses, "–"), cmp.Or(row.needs(), "any")
		if row.is == refused {
			refuses, needs = "any", "none"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", strings.Join(names, ", "), row.is, row.says, refuses, needs)
	}
	return text.String()
}

// TestDocument compares the table in docs/fields.md with the rows. With -update it writes the table.
func TestDocument(t *testing.T) {
	testutil.Section(t, "../../docs/fields.md", "fields", markdown(), *update)
}
