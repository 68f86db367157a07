package fields

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the table of fields into docs/fields.md")

// markdown is the table as it stands in docs/fields.md.
func markdown() string {
	var text strings.Builder
	text.WriteString(
		"| field | | what becomes of it | refused | engine or runtime that supports it |\n|---|---|---|---|---|\n")
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
	const document = "../../docs/fields.md"
	content, err := os.ReadFile(document)
	testutil.Must(t, err)
	before, rest, found := strings.Cut(string(content), "<!-- fields -->\n")
	table, after, closed := strings.Cut(rest, "<!-- /fields -->")
	testutil.Require(t, found && closed, "%s has no <!-- fields --> … <!-- /fields -->", document)
	if table == markdown() {
		return
	}
	testutil.Require(t, *update,
		"the table of fields in %s is out of date, run: go test ./server/fields -update", document)
	written := before + "<!-- fields -->\n" + markdown() + "<!-- /fields -->" + after
	testutil.Must(t, os.WriteFile(document, []byte(written), 0o644))
}
